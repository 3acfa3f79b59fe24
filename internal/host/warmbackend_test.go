package host_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/interactive"
	"github.com/rolloutd/rolloutd/internal/agent/react"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// sleepingAgent is an agent that runs a sleeping process.
type sleepingAgent struct{ installed }

func (sleepingAgent) WarmKey(job agent.Job) string {
	if job.ObeyProject {
		return ""
	}

	return "any"
}

func (sleepingAgent) Warm(
	ctx context.Context,
	env agent.Env,
	_ agent.Job,
	_ func(context.Context, http.Handler) error,
) error {
	_, err := agent.OpenProcess(ctx, env.Sandbox, 1, func() (wire.Process, error) {
		return wire.Process{Argv: []string{"/bin/sleep", "infinity"}}, nil
	})
	if err != nil {
		return err
	}

	return agent.MarkWarm(ctx, env.Sandbox)
}

func (sleepingAgent) Ready(ctx context.Context, env agent.Env) (bool, error) {
	return agent.Warm(ctx, env.Sandbox)
}

// installed is an agent that must be installed and cannot be started before its job is known.
type installed struct{ agent.Agent }

func (installed) Install(context.Context, agent.Env) (string, error) { return "", nil }

// realBackend makes warm sandboxes with the local driver.
func realBackend(t *testing.T) host.WarmBackend {
	t.Helper()
	sandboxd, err := sandboxtest.BuildSandboxd(t.Context(), t.TempDir())
	require.NoError(t, err)
	d, err := local.New(local.Options{Dir: t.TempDir(), SandboxdPath: sandboxd})
	require.NoError(t, err)
	agents, err := agent.NewRegistry(
		agent.Kind{
			Name:  "sleeper",
			Agent: sleepingAgent{},
		}, agent.Kind{Name: "cold", Agent: installed{}}, interactive.Kind(), react.Kind(),
	)
	require.NoError(t, err)

	return host.WarmBackend{
		Backend: sandbox.New(d, sandbox.Options{Defaults: driver.Spec{HomeMiB: 16, TmpMiB: 16, MemoryMiB: 128}}),
		Agents:  agents, Lease: time.Minute, Prepare: func(context.Context, *sandbox.Sandbox) error { return nil },
	}
}

// A worker takes over the waiting sandbox of a killed worker and destroys the half-made one. It gives the
// first to a rollout and starts a replacement. When the worker stops, only the sandbox of the rollout is
// left.
func TestWarmPoolOverRealSandboxes(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	job := host.WarmAgent{Name: "sleeper"}
	require.Equal(t, "sleeper/any", b.Key(job))
	require.Empty(t, b.Key(host.WarmAgent{Name: "cold"}))
	require.Empty(t, b.Key(host.WarmAgent{Name: "sleeper", Job: agent.Job{ObeyProject: true}}))
	require.NoError(t, b.Start(t.Context(), "warm-left", job))
	_, err := b.CreateIdle(t.Context(), "warm-half", host.WarmLabels("sleeper/any"))
	require.NoError(t, err)
	require.Error(t, b.Start(t.Context(), "warm-cold", host.WarmAgent{Name: "cold"}))

	p := host.NewWarmPool(host.WarmOptions{
		Size: 1, Sandboxes: b, Registry: prometheus.NewRegistry(),
		Room: host.NewCapacity(host.CapacityOptions{Slots: 4, Sandboxes: b}),
	})
	ctx, cancel := context.WithCancel(t.Context())

	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })

	only := func(id string) func() bool {
		return func() bool {
			living, err := b.ListWarm(t.Context())
			_, ok := living[id]

			return err == nil && ok && len(living) == 1
		}
	}
	require.Eventually(t, only("warm-left"), 5*time.Minute, 10*time.Millisecond)

	labels := map[string]string{driver.LabelRollout: "r", driver.LabelPurpose: driver.PurposeAgent}

	require.Eventually(
		t,
		func() bool { return p.Take(t.Context(), "r.1", job, rollout.Sandbox{}, labels) },
		5*time.Minute,
		10*time.Millisecond,
	)
	t.Cleanup(func() { require.NoError(t, b.Destroy(context.WithoutCancel(t.Context()), "r.1")) })
	sb, err := b.Attach(t.Context(), "r.1")
	require.NoError(t, err)
	launch, err := agent.OpenProcess(t.Context(), sb, 0, nil)
	require.NoError(t, err, "its agent is the rollout's first launch")
	require.Equal(t, 1, launch.Number)
	require.False(t, p.Take(t.Context(), "r.1", job, rollout.Sandbox{}, labels), "a retried activity finds its sandbox")

	require.Eventually(t, func() bool {
		living, err := b.ListWarm(t.Context())
		return err == nil && len(living) == 1
	}, 5*time.Minute, 10*time.Millisecond, "it is replaced")
	cancel()
	running.Wait()

	infos, err := b.List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.Equal(t, "r.1", infos[0].ID)
	_, err = agent.AttachProcess(t.Context(), sb)
	require.NoError(t, err)
	_, err = b.Attach(t.Context(), "warm-half")
	require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)
}

// A sandbox in which no agent was started is warm for every agent that needs no installation.
func TestWarmSandboxWithoutAnAgent(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	job := host.WarmAgent{Name: "react"}
	require.Equal(t, b.Key(job), b.Key(host.WarmAgent{Name: "interactive"}))
	require.NoError(t, b.Start(t.Context(), "warm-plain", job))
	ready, err := b.Ready(t.Context(), "warm-plain", b.Key(job))
	require.NoError(t, err)
	require.True(t, ready)
	require.NoError(
		t,
		b.HandOver(
			t.Context(),
			"warm-plain",
			"r.1",
			rollout.Sandbox{},
			map[string]string{driver.LabelPurpose: driver.PurposeAgent},
		),
	)
	t.Cleanup(func() { require.NoError(t, b.Destroy(context.WithoutCancel(t.Context()), "r.1")) })
	sb, err := b.Attach(t.Context(), "r.1")
	require.NoError(t, err)
	_, err = agent.AttachProcess(t.Context(), sb)
	require.True(t, fault.Is(err, fault.NotFound), "no launch is there before the rollout's own: %v", err)
}
