package activities_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

func TestCreateSandboxIsIdempotent(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	in := activities.CreateSandboxInput{Target: target(), Sandbox: rollout.Sandbox{Backend: "local", MemoryMiB: 512}}
	before := time.Now()

	for range 2 {
		place, err := h.CreateSandbox(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, "r.1", place.SandboxID)
		require.Equal(t, "h1", place.Host)
		require.Equal(t, "q1", place.Queue)
		require.False(t, place.StartedAt.Before(before))
	}

	require.Equal(t, []string{"r.1"}, h.provider.made)
	require.Equal(t, map[string]string{
		"rollout": "r",
		"attempt": "1",
		"purpose": "agent",
	}, h.provider.specs["r.1"].Labels)
	require.Equal(t, 512, h.provider.specs["r.1"].MemoryMiB)
}

// A rollout whose backend is missing on this host may be retried on another host.
func TestCreateSandboxNeedsTheBackend(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	other := target()
	other.Backend = "nomad"
	_, err := h.CreateSandbox(t.Context(), activities.CreateSandboxInput{Target: other})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.Empty(t, h.provider.made)
}

// No sandbox is created for a rollout while its model endpoint is overloaded.
func TestCreateSandboxWaitsForTheModelEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		full := fault.New(fault.Exhausted, "40 calls wait for it")
		h.gate.ready = []error{full, full, full}
		began := time.Now()
		place, err := h.createOnce(t, activities.CreateSandboxInput{Target: target(), Upstream: "vllm"}, nil)
		require.NoError(t, err)
		require.Empty(t, h.gate.ready)
		require.GreaterOrEqual(t, place.StartedAt.Sub(began), 3*time.Second)
		require.Equal(
			t,
			1,
			strings.Count(h.log.String(), "40 calls wait for it"),
			"who wonders why it waits finds it in the log, once",
		)
	})
}

// If the gateway does not answer, Temporal retries the activity: the gateway of another host may answer.
func TestCreateSandboxNeedsGatewayReply(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.gate.ready = []error{fault.New(fault.Unavailable, "connection refused")}
	_, err := h.createOnce(t, activities.CreateSandboxInput{Target: target(), Upstream: "vllm"}, nil)
	require.Equal(t, fault.Unavailable, fault.KindOf(failure.FromTemporal(err)))
	require.Empty(t, h.provider.made)
}

// Above the store's high-water mark no rollout begins, and running ones continue.
func TestCreateSandboxWaitsForTheStore(t *testing.T) {
	t.Parallel()
	h := newHostOf(t, 4, store.WithQuota(store.Quota{MinFreeBytes: math.MaxInt64}))
	in := activities.CreateSandboxInput{Target: target(), Tries: 20}

	var waiting rollout.Waiting

	_, err := h.createOnce(t, in, &waiting)
	require.ErrorContains(t, err, "store.min_free_mib")
	require.Contains(t, waiting.Why, "store is full", "clients see why it waits")
	require.Empty(t, h.provider.made)

	in.Attempt = 2
	_, err = h.createOnce(t, in, nil)
	require.NoError(t, err)
}

// A sandbox larger than the host waits for another host.
func TestCreateSandboxLargerThanTheHost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	in := activities.CreateSandboxInput{Target: target(), Sandbox: rollout.Sandbox{MemoryMiB: hostMiB + 1}, Tries: 20}

	var waiting rollout.Waiting

	_, err := h.createOnce(t, in, &waiting)
	require.ErrorContains(t, err, "more than this host has")
	require.Equal(t, 1, waiting.Returns, "it was no failure")
	require.Empty(t, h.provider.made)
}

// A rollout that waits for room on a host fails when its time in the queue is over, and no other host takes the step.
func TestQueueEndsWhileAHostHasNoRoom(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	other := activities.CreateSandboxInput{
		Target:  activities.Target{RolloutID: "other", Attempt: 1},
		Sandbox: rollout.Sandbox{MemoryMiB: hostMiB},
	}
	_, err := h.CreateSandbox(t.Context(), other)
	require.NoError(t, err)

	in := activities.CreateSandboxInput{
		Target:  target(),
		Sandbox: rollout.Sandbox{MemoryMiB: 2},
		Tries:   20,
		Queue:   time.Nanosecond,
	}
	_, err = h.createOnce(t, in, nil)

	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, string(fault.Exhausted), failed.Type())
	require.True(t, failed.NonRetryable())
	require.ErrorContains(t, err, "more than this host has left of")

	in.Target, in.Sandbox.MemoryMiB = other.Target, hostMiB
	_, err = h.createOnce(t, in, nil)
	require.NoError(t, err, "a host with room takes it at any time")
}

// An image whose registry does not answer is pulled a few times. Then the rollout ends with the words of
// the registry, without another attempt.
func TestImageOfASilentRegistry(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.provider.pull = fault.New(fault.Unavailable, "the registry does not answer: connection refused")

	in := activities.CreateSandboxInput{Target: target(), Sandbox: rollout.Sandbox{Image: "registry.test/app:1"}}
	for tries, want := range map[int]fault.Kind{1: fault.Invalid, 20: fault.Unavailable} {
		in.Tries = tries
		_, err := h.createOnce(t, in, nil)

		var failed *temporal.ApplicationError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, string(want), failed.Type(), tries)
		require.Equal(t, want == fault.Invalid, failed.NonRetryable(), tries)
		require.ErrorContains(t, err, "the registry does not answer: connection refused")
	}
}

// CreateSandbox waits for a backend without capacity, such as an account with an exhausted quota, and for room for an
// image on the host's disk. The wait is not a failure.
func TestCreateSandboxWaitsForTheBackend(t *testing.T) {
	t.Parallel()

	for name, lack := range map[string]func(*provider) *error{
		"quota":          func(p *provider) *error { return &p.full },
		"room for image": func(p *provider) *error { return &p.pull },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			full := lack(h.provider)
			*full = fault.New(fault.Exhausted, "the %s is used up", name)
			in := activities.CreateSandboxInput{Target: target(), Tries: 20}

			var waiting rollout.Waiting

			_, err := h.createOnce(t, in, &waiting)
			require.ErrorContains(t, err, name+" is used up")
			require.Equal(t, 1, waiting.Returns, "it was no failure")
			require.Contains(t, waiting.Why, name+" is used up", "clients see why it waits")

			*full = nil
			_, err = h.createOnce(t, in, &waiting)
			require.NoError(t, err)
		})
	}
}

// CreateSandbox waits for room for a service beside the sandbox, too, and does not hold the sandbox meanwhile.
func TestCreateSandboxWaitsForRoomOfServices(t *testing.T) {
	t.Parallel()

	h := newHost(t)
	h.provider.program = fault.New(fault.Exhausted, "no space for the layers")

	in := activities.CreateSandboxInput{
		Target:  target(),
		Sandbox: rollout.Sandbox{Image: "app", Services: []rollout.Service{{Name: "web", Image: "web"}}},
		Tries:   20,
	}
	in.Services = "web"

	var waiting rollout.Waiting

	_, err := h.createOnce(t, in, &waiting)
	require.ErrorContains(t, err, "no space for the layers")
	require.Equal(t, 1, waiting.Returns, "it was no failure")
	require.Contains(t, waiting.Why, `service "web"`, "clients see why it waits")
	require.Equal(t, []string{"r.1"}, h.provider.made)
	require.Empty(t, must(h.provider.List(t.Context())))
}

func TestInstall(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	in := activities.InstallInput{Target: target(), Agent: "opencode"}
	_, err := h.InstallOpencode(t.Context(), in)
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "without its sandbox")
	h.sandbox(t)
	out, err := h.InstallOpencode(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "coder 1", out.Log)

	in.Agent = "nosuch"
	_, err = h.InstallOpencode(t.Context(), in)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// If every sandbox has what the agent needs, the workflow skips the installation. A workflow of an older
// build still requests it.
func TestNothingToInstall(t *testing.T) {
	t.Parallel()

	h := newHost(t)
	for name, needs := range map[string]bool{"opencode": true, rollout.AgentOracle: false, "nosuch": true, "": true} {
		place, err := h.CreateSandbox(t.Context(), activities.CreateSandboxInput{Target: target(), Agent: name})
		require.NoError(t, err)
		require.Equal(t, !needs, place.NoInstall, name)
	}

	out, err := h.InstallOpencode(t.Context(), activities.InstallInput{Target: target(), Agent: rollout.AgentOracle})
	require.NoError(t, err)
	require.Contains(t, out.Log, "no installation")
}

func TestStartProxyWaitsForTheChannel(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)
	h.gate.status.Attached = false
	h.gate.onPoll = func(n int, s *gatewayapi.RouteStatus) { s.Attached = n >= 3 }
	in := activities.ProxyInput{
		Target: target(),
		Agent:  "opencode",
		Mode:   rollout.TransparentProxy,
		Model:  rollout.Model{Name: "m"},
	}
	require.NoError(t, h.StartProxy(t.Context(), in))
	require.GreaterOrEqual(t, h.gate.polls, 3)
	require.Equal(t, []gatewayapi.Route{{
		ID:        "r.1",
		RolloutID: "r",
		Attempt:   1,
		SandboxID: "r.1",
		Capture:   true,
		Model:     in.Model,
		Origin:    "agent-*",
		Sessions:  true,
	}}, h.gate.opened)
}

// An agent on the host or without a model needs no channel, so RunAgent opens its route. The route of an
// agent in the sandbox is already open.
func TestRouteOfAnAgentOnTheHost(t *testing.T) {
	t.Parallel()

	for name, opened := range map[string]int{rollout.AgentReact: 1, rollout.AgentNop: 1, "opencode": 0} {
		h := working(t, 1)
		place, err := h.CreateSandbox(t.Context(), activities.CreateSandboxInput{Target: target(), Agent: name})
		require.NoError(t, err)
		require.Equal(t, opened == 1, place.NoProxy, name)

		in := agentInput()
		in.Agent, in.Model = name, rollout.Model{Name: "m"}
		_, err = h.RunAgent(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, h.gate.opened, opened, name)
		_, err = h.RunAgent(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, h.gate.opened, opened, "%s: the route of an agent that was launched is not opened again", name)

		if name == rollout.AgentReact {
			require.Equal(t, gatewayapi.Route{
				ID:        "r.1",
				RolloutID: "r",
				Attempt:   1,
				Capture:   true,
				Model:     in.Model,
				Limits:    in.Limits,
			}, h.gate.opened[0])
		}
	}
}

// If the sandbox dies while the gateway connects to it, the activity returns before its timeout.
func TestStartProxyDetectsSandboxDeath(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)
	h.gate.onPoll = func(n int, s *gatewayapi.RouteStatus) {
		s.Attached = false
		_ = h.provider.Destroy(t.Context(), "r.1")
	}
	require.Equal(
		t,
		fault.SandboxLost,
		fault.KindOf(h.StartProxy(t.Context(), activities.ProxyInput{Target: target()})),
	)
}

func TestSetup(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.sandbox(t)
	h.provider.exec = func(_ *fakeSandbox, _ string, p wire.Process) exec {
		return exec{stdout: "ran " + p.Argv[len(p.Argv)-1]}
	}
	in := activities.SetupInput{
		Target:   target(),
		Files:    map[string]string{"a.txt": "A", "/home/user/run.sh": "#!/bin/sh\n"},
		Commands: []string{"one", "two"},
		Timeout:  time.Minute,
	}
	require.NoError(t, h.RunSetup(t.Context(), in))
	b.locked(func() {
		require.Equal(t, "A", b.files["/home/user/workdir/a.txt"])
		require.Equal(t, []string{"setup-1", "setup-2"}, b.order)
		p := b.specs["setup-1"]
		require.Equal(t, []string{"bash", "--noprofile", "--norc", "-c", "one"}, p.Argv)
		require.Equal(t, rollout.Workdir, p.Dir)
		require.InDelta(t, 60_000, p.TimeoutMillis, 100)

		b.files["/home/user/workdir/a.txt"] = "changed by a command"
	})
	require.Contains(t, h.stored(t, store.Setup), `"stdout":"ran two"`)

	require.NoError(t, h.RunSetup(t.Context(), in), "a second time")
	b.locked(func() {
		require.Len(t, b.order, 2, "nothing runs twice")
		require.Equal(t, "changed by a command", b.files["/home/user/workdir/a.txt"], "nor is staged twice")
	})
}

// The task's files come from the store. A task without stored files and a missing blob give different errors.
func TestSetupStagesStoredFiles(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.sandbox(t)
	ref, err := h.store.PutArchive(t.Context(), map[string]string{"a.txt": "A", "/home/user/run.sh": "#!/bin/sh\n"}, nil)
	require.NoError(t, err)

	in := activities.SetupInput{Target: target(), FilesRef: &ref, Timeout: time.Minute}
	require.NoError(t, h.RunSetup(t.Context(), in))
	b.locked(func() {
		require.Equal(t, "A", b.files["/home/user/workdir/a.txt"])
		require.Equal(t, "#!/bin/sh\n", b.files["/home/user/run.sh"])
	})

	in.FilesRef = &rollout.Ref{Key: rollout.TaskFilesKey("0")}
	require.Equal(t, fault.NotFound, fault.KindOf(h.RunSetup(t.Context(), in)))
}

func TestSetupEndsAtTheFirstFailure(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		second exec
		says   string
	}{
		"exit code": {exec{
			exit:   3,
			stderr: "no such thing\n",
		}, "setup command 2 of 3 (two): exit code 3: no such thing"},
		"timeout": {exec{hang: true}, "setup command 2 of 3 (two): it did not end within 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			b := h.sandbox(t)
			h.provider.exec = func(_ *fakeSandbox, name string, _ wire.Process) exec {
				if name == "setup-2" {
					return c.second
				}

				return exec{}
			}
			err := h.RunSetup(t.Context(), activities.SetupInput{
				Target:   target(),
				Commands: []string{"one", "two", "three"},
				Timeout:  time.Minute,
			})
			require.Equal(t, fault.SetupFailed, fault.KindOf(err))
			require.EqualError(t, err, c.says)
			require.Equal(t, []string{"setup-1", "setup-2"}, b.order)
			require.Contains(t, h.stored(t, store.Setup), `"cmd":"two"`, "what failed is stored")
		})
	}
}

// The loss of a sandbox during setup is not reported as a failure of the setup.
func TestSetupInALostSandbox(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)
	require.NoError(t, h.provider.Destroy(t.Context(), "r.1"))
	err := h.RunSetup(t.Context(), activities.SetupInput{
		Target:   target(),
		Commands: []string{"one"},
		Timeout:  time.Minute,
	})
	require.Equal(t, fault.SandboxLost, fault.KindOf(err))
}

// A host whose configuration has lost the backend of an attempt still closes its route.
func TestCloseSandboxWithoutItsBackend(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)

	elsewhere := target()
	elsewhere.Backend = "docker"

	err := h.CloseSandbox(t.Context(), activities.CloseInput{Target: elsewhere})
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.Equal(t, []string{"r.1"}, h.gate.closed)
}

func TestCloseSandboxTwice(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)

	for range 2 {
		require.NoError(t, h.CloseSandbox(t.Context(), activities.CloseInput{Target: target()}))
	}

	require.Empty(t, h.provider.boxes)
	require.Equal(t, []string{"r.1", "r.1"}, h.gate.closed)

	events := h.stored(t, store.Events)
	for _, phase := range []rollout.Phase{rollout.PhaseCreating, rollout.PhaseClosing} {
		require.Contains(t, events, `"`+string(phase)+`"`, "the second call keeps the events that the first one stored")
	}
}
