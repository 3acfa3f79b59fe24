package sandbox_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// newWithShortTimeouts creates a sandbox whose client has short timeouts. The handler hangs on requests for
// which hangs returns true.
func newWithShortTimeouts(t *testing.T, proof time.Duration, hangs func(*http.Request) bool) (*sandbox.Sandbox, *fake) {
	t.Helper()

	over := make(chan struct{})
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if hangs(r) {
			select {
			case <-over:
			case <-r.Context().Done():
			}
		}

		w.WriteHeader(http.StatusNoContent)
	})
	t.Cleanup(func() { close(over) })

	b := sandbox.New(f, sandbox.Options{Silence: 50 * time.Millisecond, Proof: proof})
	s, err := b.Create(t.Context(), "r.1", rollout.Sandbox{}, nil)
	require.NoError(t, err)

	return s, f
}

// A sandbox that answers no request is destroyed, and the caller gets SandboxLost.
func TestSilentSandboxIsDestroyed(t *testing.T) {
	t.Parallel()

	for name, call := range map[string]func(*testing.T, *sandbox.Sandbox) error{
		"kill all": func(t *testing.T, s *sandbox.Sandbox) error { return s.KillAll(t.Context()) },
		"renew":    func(t *testing.T, s *sandbox.Sandbox) error { return s.Renew(t.Context(), time.Minute) },
		"write": func(t *testing.T, s *sandbox.Sandbox) error {
			return s.WriteFile(t.Context(), "/tmp/x", strings.NewReader("x"), 0o644)
		},
		"status": func(t *testing.T, s *sandbox.Sandbox) error { _, err := s.Status(t.Context(), "p"); return err },
	} {
		s, f := newWithShortTimeouts(t, 50*time.Millisecond, func(*http.Request) bool { return true })
		err := call(t, s)
		require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%s: %v", name, err)
		require.EqualValues(t, 1, f.destroyed.Load(), name)
	}
}

// A sandbox that answers other requests is kept: a single request may be slow.
func TestSlowRequestKeepsTheSandbox(t *testing.T) {
	t.Parallel()
	s, f := newWithShortTimeouts(t, 5*time.Minute, func(r *http.Request) bool { return r.URL.Path != "/v1/info" })
	err := s.KillAll(t.Context())
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.Zero(t, f.destroyed.Load())
}
