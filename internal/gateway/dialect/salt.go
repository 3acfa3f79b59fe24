package dialect

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

const (
	// CacheSalt is the member by which vLLM and SGLang keep apart the prompts in their prefix caches: a prompt finds
	// only what calls with the same salt have left there.
	CacheSalt = "cache_salt"

	// extraKey is SGLang's other name for it.
	extraKey = "extra_key"
)

// saltBytes is the length of the hash in a salt. vLLM refuses salts of more than 128 characters, and the characters
// @ / \ and NUL.
const saltBytes = 16

// SaltOf returns the cache salt for an endpoint with weights of that version; "": the version is not known.
func SaltOf(endpoint, version string) string {
	if version == "" {
		return ""
	}

	sum := sha256.Sum256([]byte(endpoint + "\x00" + version))

	return "rolloutd-" + hex.EncodeToString(sum[:saltBytes])
}

// salted reports whether the agent gives a salt of its own.
func salted(o *rawjson.Object) bool {
	for _, key := range []string{CacheSalt, extraKey} {
		if raw, ok := o.Get(key); ok && string(raw) != "null" {
			return true
		}
	}

	return false
}

// SetSalt sets the salt of the engine's prefix cache; "": the one that is set stays. It does nothing where the agent
// gives a salt, and where no token ids are asked for: then the endpoint may be no engine.
func (a *Request) SetSalt(salt string) {
	if !a.saltable || salt == "" || salt == a.salt {
		return
	}

	o, err := rawjson.ParseObject(a.Body)
	if err != nil {
		// the body is always an object
		return
	}

	d := &Draft{Object: o, Changes: a.Changes}
	d.Set(CacheSalt, rawjson.Quote(salt))
	a.Take(d)
	a.salt = salt
}
