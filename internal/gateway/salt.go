package gateway

import "github.com/rolloutd/rolloutd/internal/gateway/dialect"

// CacheSalt says when the calls of a rollout get another salt of the engine's prefix cache. Salts keep a prompt from
// meeting keys and values that earlier weights have computed.
type CacheSalt string

const (
	// SaltOff: the gateway sets none.
	SaltOff CacheSalt = "off"
	// SaltTurn: with the first call after the weights have changed.
	SaltTurn CacheSalt = "turn"
	// SaltRollout: never. A rollout keeps the salt of its first call, and what it has in the cache.
	SaltRollout CacheSalt = "rollout"
)

// salt returns the salt of a call that begins while the endpoint has that version of the weights, which is "" where
// it is not known. The route keeps its version on disk, so that a call that is repeated after a crash has the same.
func (r *route) salt(version string) string {
	if r.cacheSalt == SaltOff {
		return ""
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	known := r.journal.SaltVersion
	if version != "" && version != known && (known == "" || r.cacheSalt == SaltTurn) {
		r.journal.SaltVersion = version
		r.saveOrLog("version of the cache salt")
	}

	return dialect.SaltOf(r.Model.Upstream(), r.journal.SaltVersion)
}
