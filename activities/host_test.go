package activities_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	hostpkg "github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// signals records the progress reported to workflows.
type signals struct {
	mu      sync.Mutex
	reports []rollout.Progress
}

func (s *signals) SignalWorkflow(_ context.Context, workflowID, _, name string, arg any) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if workflowID != "rollout-r" || name != rollout.SignalTurns {
		return fault.New(fault.NotFound, "no workflow %q", workflowID)
	}

	s.reports = append(s.reports, arg.(rollout.Progress))

	return nil
}

func (s *signals) all() []rollout.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()

	return slices.Clone(s.reports)
}

// host is one host with all its parts. Everything but the store and the sandbox client is fake.
type host struct {
	*activities.Activities
	provider *provider
	gate     *fakeGateway
	coder    *fakeAgent
	signals  *signals
	store    *store.Store

	// of the metrics
	registry *prometheus.Registry

	// read it only while no activity runs
	log *bytes.Buffer

	// of the store
	dir string

	// of the activities
	options activities.Options
}

// hostMiB is the memory of a host in MiB.
const hostMiB = 1 << 20

// newHost returns a host on which the agent's process keeps running and every other process ends at once
// with exit code 0.
func newHost(t *testing.T) *host { t.Helper(); return newHostOf(t, 4) }

// newHostOf is like newHost, with the given number of slots.
func newHostOf(t *testing.T, slots int, options ...store.Option) *host {
	t.Helper()
	dir := t.TempDir()
	st, err := store.Open(t.Context(), dir, options...)
	require.NoError(t, err)

	h := &host{
		provider: &provider{boxes: map[string]*fakeSandbox{}, specs: map[string]driver.Spec{}},
		gate:     &fakeGateway{status: gatewayapi.RouteStatus{Attached: true}},
		coder:    &fakeAgent{transcript: rollout.Transcript{SessionID: "ses"}},
		signals:  &signals{},
		store:    st,
		registry: prometheus.NewRegistry(),
		log:      &bytes.Buffer{},
		dir:      dir,
	}
	h.provider.exec = func(_ *fakeSandbox, name string, _ wire.Process) exec {
		return exec{hang: strings.HasPrefix(name, "agent-")}
	}
	agents, err := agent.NewRegistry(agent.Kind{
		Name: "opencode", Agent: h.coder, Sessions: true, OutputBlob: store.OpencodeOutput, LogPath: rollout.AgentLog,
		Log: func(t rollout.Transcript) []byte { return []byte("log of " + t.SessionID + "\n") },
	}, agent.Kind{
		Name:    rollout.AgentNop,
		Agent:   h.coder,
		NoModel: true,
	}, agent.Kind{Name: rollout.AgentReact, Agent: h.coder, OnHost: true}, agent.NewOracle())
	require.NoError(t, err)
	tools, err := tool.NewRegistry(nil, []tool.Toolset{{Name: tool.Default}})
	require.NoError(t, err)

	h.options = activities.Options{
		Host:  "h1",
		Queue: "q1",
		Backends: map[string]activities.Backend{"local": {
			Backend: sandbox.New(h.provider, sandbox.Options{}), Capacity: hostpkg.NewCapacity(hostpkg.CapacityOptions{
				Slots: slots, Total: rollout.Resources{MemoryMiB: hostMiB}, Sandboxes: h.provider,
			}),
		}},
		Gateway:  h.gate,
		Store:    st,
		Registry: h.registry,
		Signals:  h.signals,
		Logger:   slog.New(slog.NewTextHandler(h.log, nil)),
		Agents:   agents,
		Tools:    tools,
		Network:  &network.Service{Dir: filepath.Join(dir, "network"), Logger: slog.New(slog.DiscardHandler)},
		Events:   must(eventlog.Open(filepath.Join(dir, "events"), slog.New(slog.DiscardHandler))),
		Episodes: toolservice.NewTable(filepath.Join(dir, "episodes")),
	}
	h.Activities = activities.New(h.options)

	t.Cleanup(func() {
		for _, info := range must(h.provider.List(context.Background())) {
			_ = h.provider.Destroy(context.Background(), info.ID)
		}

		_ = st.Close()
	})

	return h
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}

	return v
}

func target() activities.Target { return activities.Target{RolloutID: "r", Attempt: 1} }

// sandbox creates the attempt's sandbox and returns its fake.
func (h *host) sandbox(t *testing.T) *fakeSandbox {
	t.Helper()
	_, err := h.CreateSandbox(t.Context(), activities.CreateSandboxInput{Target: target()})
	require.NoError(t, err)

	b, ok := h.provider.box("r.1")
	require.True(t, ok)

	return b
}

// stored reads a blob of the attempt.
func (h *host) stored(t *testing.T, name string) string {
	t.Helper()
	data, err := h.store.Bytes(t.Context(), store.AttemptKey("r", 1, name), 1<<20)
	require.NoError(t, err)

	return string(data)
}
