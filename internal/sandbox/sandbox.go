package sandbox

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Sandbox is one living sandbox, seen by one of its users. It holds nothing but names, so that any number of them may stand for
// the same sandbox, in any process.
type Sandbox struct {
	id      string
	user    string            // whose processes are started and whose files are written; "": the agent's
	env     map[string]string // added to the environment of processes
	backend *Backend
}

// As returns the same sandbox for another user, "" or wire.VerifierUser: processes are started, and files are read and written,
// with that user's rights. Where Info says that users are not separate, all share the same rights.
func (s *Sandbox) As(user string) *Sandbox {
	return &Sandbox{id: s.id, user: user, env: s.env, backend: s.backend}
}

// WithEnv returns the same sandbox, in which processes are started with further variables. What a process names itself wins.
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

// Info describes the sandboxd that answers.
func (s *Sandbox) Info(ctx context.Context) (wire.Info, error) {
	var info wire.Info
	return info, s.json(ctx, call{method: http.MethodGet, path: "/v1/info"}, &info)
}

// Renew puts the sandbox's end off to ttl from now, in sandboxd and at the provider.
func (s *Sandbox) Renew(ctx context.Context, ttl time.Duration) error {
	lease := wire.Lease{TTLMillis: ttl.Milliseconds()}
	if err := s.json(ctx, call{method: http.MethodPost, path: "/v1/lease", in: lease}, nil); err != nil {
		return err
	}
	return contextual(ctx, s.backend.driver.Renew(ctx, s.id, ttl))
}
