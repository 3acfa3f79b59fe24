package sandbox

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Sandbox is one living sandbox, as one of its users. It holds only names, so any number of them may refer
// to the same sandbox, in any process.
type Sandbox struct {
	id string

	// user of processes and files; "": the agent's
	user string

	// added to the environment of processes
	env     map[string]string
	backend *Backend
}

// As returns the same sandbox for another user, "" or wire.VerifierUser: processes and files have that
// user's rights. If Info reports that users are not separate, all share the same rights.
func (s *Sandbox) As(user string) *Sandbox {
	return &Sandbox{id: s.id, user: user, env: s.env, backend: s.backend}
}

// WithEnv returns the same sandbox with further variables for its processes. A variable set by the process
// itself takes precedence.
func (s *Sandbox) WithEnv(env map[string]string) *Sandbox {
	all := maps.Clone(s.env)
	if all == nil {
		all = map[string]string{}
	}

	maps.Copy(all, env)

	return &Sandbox{id: s.id, user: s.user, env: all, backend: s.backend}
}

// ID is the id of Create.
func (s *Sandbox) ID() string { return s.id }

// Info describes the sandbox's sandboxd.
func (s *Sandbox) Info(ctx context.Context) (wire.Info, error) {
	var info wire.Info
	return info, s.json(ctx, call{method: http.MethodGet, path: "/v1/info"}, &info)
}

// Renew extends the lease to ttl from now, in sandboxd and at the provider.
func (s *Sandbox) Renew(ctx context.Context, ttl time.Duration) error {
	lease := wire.Lease{TTLMillis: ttl.Milliseconds()}
	if err := s.json(ctx, call{method: http.MethodPost, path: "/v1/lease", in: lease}, nil); err != nil {
		return err
	}

	return contextual(ctx, s.backend.driver.Renew(ctx, s.id, ttl))
}
