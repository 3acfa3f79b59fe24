package activities

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/supervisor"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// Gateway is the model gateway of this host; *gatewayapi.Client is one.
type Gateway interface {
	Ready(ctx context.Context, upstream string) error
	Open(ctx context.Context, r gatewayapi.Route) error
	supervisor.Gateway
	Trace(ctx context.Context, id string) (io.ReadCloser, error)
	RoutedExperts(ctx context.Context, id string) (io.ReadCloser, error)
	Images(ctx context.Context, id string) (io.ReadCloser, error)
	Inspect(ctx context.Context, id string, wait time.Duration) (rollout.EndpointReport, error)
	Model(route string) *gatewayapi.Model
	Close(ctx context.Context, id string) error
}

// Backend is one kind of sandbox that this host has.
type Backend struct {
	*sandbox.Backend

	// at most half of its slots wait for a model endpoint
	Capacity *host.Capacity

	// nil: no warm sandboxes
	Warm *host.WarmPool
}

// Options are the dependencies of activities.
type Options struct {
	// this host's stable id
	Host string

	// the task queue of this host's own activities
	Queue string

	// by the name that a task uses
	Backends map[string]Backend
	Gateway  Gateway
	Store    *store.Store
	Agents   *agent.Registry

	// the tools of policies whose agents run on the host; nil: there are no such agents
	Tools *tool.Registry

	// nil: no sandbox of this host may reach a network
	Network *network.Service

	// the episodes of the host's tool service; nil: there are no agents whose calls come from a client
	Episodes *toolservice.Table
	Signals  supervisor.Signaller

	// delivers groups to sinks; nil: no sinks
	Delivery Delivery

	// looks up the groups of producers; nil: there are no producers
	Groups Groups

	// bounds concurrent agent launches on this host; nil: no bound
	Starts *host.Starts

	// nil: events are not logged
	Events *eventlog.Logs
	// Suspended measures how long this process was suspended; nil: not measured.
	Suspended *clock.SuspendMonitor

	// where metrics register; nil: they are not exported
	Registry prometheus.Registerer

	// 0: 5 minutes
	Lease time.Duration

	// nil: silent
	Logger *slog.Logger
}

// Activities are the steps of a rollout. Workflows refer to the methods on a nil pointer.
type Activities struct {
	o        Options
	log      *slog.Logger
	meters   *meters
	watcher  *supervisor.Watcher
	attempts host.Attempts
	leases   host.Leases
	controls grading.Controls

	// by backend
	admission map[string]*host.Admission
}

// New makes the activities of a host.
func New(o Options) *Activities {
	if o.Lease == 0 {
		o.Lease = host.DefaultLease
	}

	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	a := &Activities{
		o: o, log: o.Logger, meters: newMeters(o.Registry), leases: host.Leases{Length: o.Lease, Logger: o.Logger},
		admission: map[string]*host.Admission{},
	}
	for name, b := range o.Backends {
		a.admission[name] = host.NewAdmission(o.Gateway, b.Capacity.MaxSlots(), createTimeout)
	}

	a.watcher = supervisor.New(supervisor.Options{
		Gateway:   o.Gateway,
		Store:     o.Store,
		Signals:   o.Signals,
		Starts:    o.Starts,
		Events:    o.Events,
		Suspended: o.Suspended,
	})

	return a
}

// Transcript returns the transcript of the agent in a sandbox of this host; see supervisor.Watcher.
func (a *Activities) Transcript(ctx context.Context, sandboxID string) (rollout.Transcript, error) {
	return a.watcher.Transcript(ctx, sandboxID)
}

// RegisterCreate registers the activities that any host with the backend can run; w polls the backend's create queue.
func (a *Activities) RegisterCreate(w worker.ActivityRegistry) {
	register(w, map[string]any{rollout.ActivityCreate: a.CreateSandbox, "Regrade": a.Regrade})
}

// RegisterLocal registers the local activities of workflows; w polls the queue of workflows.
func (a *Activities) RegisterLocal(w worker.ActivityRegistry) {
	register(w, map[string]any{
		"ComposeResult": a.ComposeResult,
		"StoreGroup":    a.StoreGroup,
		"StoreProducer": a.StoreProducer,
		"LoadTask":      a.LoadTask,
		"StoreRegrade":  a.StoreRegrade,
	})
}

// RegisterDelivery registers the activities on finished groups, which any host can run; w polls rollout.DeliveryQueue.
func (a *Activities) RegisterDelivery(w worker.ActivityRegistry) {
	register(w, map[string]any{
		"SinkStatus":   a.SinkStatus,
		"DeliverGroup": a.DeliverGroup,
		"CloseSink":    a.CloseSink,
		"GroupReports": a.GroupReports,
	})
}

// RegisterHost registers the activities that only this host can run; w polls the host's own queue.
func (a *Activities) RegisterHost(w worker.ActivityRegistry) {
	register(w, map[string]any{
		"InstallOpencode":  a.InstallOpencode,
		"StartProxy":       a.StartProxy,
		"RunSetup":         a.RunSetup,
		"RunAgent":         a.RunAgent,
		"RunVerifier":      a.RunVerifier,
		"HoldSandbox":      a.HoldSandbox,
		"CollectArtifacts": a.CollectArtifacts,
		"CloseSandbox":     a.CloseSandbox,
		"AbortAgent":       a.AbortAgent,
	})
}

func register(w worker.ActivityRegistry, all map[string]any) {
	for name, f := range all {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// loggerOf is the logger of one step of an attempt.
func (a *Activities) loggerOf(step string, t Target) *slog.Logger {
	return a.log.With("step", step, "rollout", t.RolloutID, "attempt", t.Attempt)
}

// acquireAttempt cancels the running activity of the attempt, waits until it has returned, and returns a
// context that ends when a later activity of the attempt begins. The caller must call release.
func (a *Activities) acquireAttempt(ctx context.Context, t Target) (_ context.Context, release func(), err error) {
	return a.attempts.Acquire(ctx, t.SandboxID())
}

// backend is the backend of the attempt's sandboxes.
func (a *Activities) backend(t Target) (Backend, error) {
	b, ok := a.o.Backends[backendName(t)]
	// the workflow chose this host's queue
	if !ok {
		return b, fault.New(fault.Unavailable, "host %s has no sandbox backend %q", a.o.Host, backendName(t))
	}

	return b, nil
}

func backendName(t Target) string { return cmp.Or(t.Backend, rollout.DefaultBackend) }

// env is the environment of the attempt's agent.
func (a *Activities) env(sb *sandbox.Sandbox, t Target) agent.Env {
	return agent.Env{Sandbox: sb, Model: a.o.Gateway.Model(t.SandboxID()), Suspended: a.o.Suspended}
}

// attach finds the sandbox of the attempt's agent and renews its lease until release is called; see host.Leases.
func (a *Activities) attach(ctx context.Context, t Target) (sb *sandbox.Sandbox, release func(), err error) {
	b, err := a.backend(t)
	if err != nil {
		return nil, nil, err
	}

	return a.attachIn(ctx, b, t, t.SandboxID())
}

// attachIn is attach for one of the attempt's sandboxes. The services beside it are kept as well.
func (a *Activities) attachIn(
	ctx context.Context,
	b Backend,
	t Target,
	id string,
) (sb *sandbox.Sandbox, release func(), err error) {
	sb, released, err := a.leases.Attach(ctx, b.Backend, id)
	if err != nil {
		return nil, nil, err
	}

	services, err := a.keepServices(ctx, b, t, id)
	if err != nil {
		released()
		return nil, nil, err
	}

	return sb, func() { services(); released() }, nil
}
