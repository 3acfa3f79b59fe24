package activities_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Live grading ends the agent and no other process. The others are stopped while the work is saved, and go on while
// the verifier runs in its own sandbox.
func TestLiveGrading(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.sandbox(t)

	b.locked(func() {
		b.procs["agent-1"] = &wire.Status{Name: "agent-1", Running: true}
		b.procs["other"] = &wire.Status{Name: "other", Running: true}
		b.refuse = func(method, path string, _ map[string][]string) error {
			if method == http.MethodGet && path == "/v1/tar" {
				require.True(t, b.frozen, "an archive shows one moment")
			}

			return nil
		}
	})

	h.provider.exec = func(v *fakeSandbox, _ string, _ wire.Process) exec {
		require.Equal(t, "r.1.v", v.id)
		require.False(t, b.frozen)

		return rewards("1")
	}
	grade, err := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Script: "x", Grade: rollout.GradeLive}))
	require.NoError(t, err)
	require.Equal(t, 1.0, grade.Reward)
	require.Contains(t, h.stored(t, store.Grading), `"mode":"live"`)
	require.Zero(t, b.killAlls)
	require.False(t, b.procs["agent-1"].Running)
	require.True(t, b.procs["other"].Running)
}

// If the agent's sandbox is lost during live grading, the attempt is lost: what the tests saw of its services is no
// grade.
func TestLiveGradingLosesTheServices(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)

	h.provider.exec = func(*fakeSandbox, string, wire.Process) exec {
		require.NoError(t, h.provider.Destroy(t.Context(), "r.1"))

		return rewards("0")
	}
	_, err := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Script: "x", Grade: rollout.GradeLive}))
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
}

// A verifier that ran while no worker carried its connections is forgotten.
func TestLiveGradingAfterACrash(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)

	in := verifyInput(rollout.Verifier{Script: "x", Grade: rollout.GradeLive})
	h.provider.exec = func(v *fakeSandbox, _ string, _ wire.Process) exec {
		v.refuse = func(string, string, map[string][]string) error {
			return fault.New(fault.Unavailable, "the worker died")
		}

		return rewards("0")
	}
	_, err := h.RunVerifier(t.Context(), in)
	require.Error(t, err)

	h.provider.exec = func(*fakeSandbox, string, wire.Process) exec { return rewards("1") }
	grade, err := h.RunVerifier(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, 1.0, grade.Reward)
}

// A fresh grading says on which ports the agent's processes listened when it ended them, also after a crash.
func TestListenersAreNoted(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.sandbox(t)
	b.locked(func() { b.left = wire.Listeners{Ports: []int{80, 8080}, Processes: 2} })

	in := verifyInput(rollout.Verifier{Script: "x"})
	h.provider.exec = func(v *fakeSandbox, _ string, _ wire.Process) exec {
		b.locked(func() { b.left = wire.Listeners{} })

		v.refuse = func(string, string, map[string][]string) error {
			return fault.New(fault.Unavailable, "the worker died")
		}

		return rewards("0")
	}
	_, err := h.RunVerifier(t.Context(), in)
	require.Error(t, err)

	v, _ := h.provider.box("r.1.v")
	v.locked(func() { v.refuse = nil })

	_, err = h.RunVerifier(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, h.stored(t, store.Grading), "listen on ports (80, 8080)")
}

// beside makes the sandbox of the service "web" beside another one.
func (h *host) beside(t *testing.T, id string) *fakeSandbox {
	t.Helper()
	require.NoError(t, h.provider.Create(t.Context(), id+".s-web", driver.Spec{}))

	b, ok := h.provider.box(id + ".s-web")
	require.True(t, ok)
	b.locked(func() { b.procs["service"] = &wire.Status{Name: "service", Running: true} })

	return b
}

// If the sandbox of a service is lost while the tests run, their result is no grade. A service that has ended is another
// matter: the work may have ended it.
func TestGradingLosesAService(t *testing.T) {
	t.Parallel()

	for lost, kind := range map[bool]fault.Kind{true: fault.SandboxLost, false: ""} {
		h := newHost(t)
		h.sandbox(t)
		h.beside(t, "r.1")
		service := h.beside(t, "r.1.v")

		h.provider.exec = func(*fakeSandbox, string, wire.Process) exec {
			if lost {
				require.NoError(t, h.provider.Destroy(t.Context(), "r.1.v.s-web"))
			} else {
				service.locked(func() { service.procs["service"].Running = false })
			}

			return rewards("0")
		}

		in := verifyInput(rollout.Verifier{Script: "x"})
		in.Services = "web"

		grade, err := h.RunVerifier(t.Context(), in)
		if lost {
			require.Equal(t, kind, fault.KindOf(err))
			require.ErrorContains(t, err, `service "web": `)

			continue
		}

		require.NoError(t, err)
		require.Zero(t, grade.Reward)
	}
}
