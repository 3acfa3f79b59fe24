package upstream

import (
	"strings"
	"sync"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

// engineVersions are the versions of the weights that engines named in their latest replies, by base URL.
type engineVersions struct {
	mu sync.Mutex
	by map[string]string
}

// Version returns the version of its weights that an engine named last; "": none.
func (u *Client) Version(engine string) string { return u.versions.of(engine) }

// of returns the version that an engine named last; "": none.
func (v *engineVersions) of(engine string) string {
	v.mu.Lock()
	defer v.mu.Unlock()

	return v.by[engine]
}

// remember remembers the version that a reply names, the last one of several.
func (v *engineVersions) remember(engine, version string) {
	if at := strings.LastIndex(version, ".."); at >= 0 {
		version = version[at+len(".."):]
	}

	if version == "" || version == reply.Unlabelled {
		return
	}

	v.mu.Lock()
	defer v.mu.Unlock()

	if v.by == nil {
		v.by = map[string]string{}
	}

	if _, known := v.by[engine]; !known {
		v.makeRoom()
	}

	v.by[engine] = version
}

// makeRoom removes an arbitrary engine if there are too many: clients give addresses. v.mu is held.
func (v *engineVersions) makeRoom() {
	for engine := range v.by {
		if len(v.by) < maxGiven {
			return
		}

		delete(v.by, engine)
	}
}
