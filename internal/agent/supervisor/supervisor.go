package supervisor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

const (
	// sampleEvery is how often the CPU time of an agent is measured until its first model call.
	sampleEvery = 5 * time.Second
	// awayPause is the pause before the next request to a gateway that did not answer, unless the route
	// changes earlier.
	awayPause = 5 * time.Second
	// longestWait bounds the wait for a change, in case one is missed.
	longestWait = time.Minute
	// routePause is the minimum time between two changes of the route. It merges the end of a call and the
	// start of the next one into one change: handling a change costs as much as the calls.
	routePause = 100 * time.Millisecond
	// maxTranscripts is how many transcripts are in memory at once. One of 32 MiB takes about four times
	// that while it is saved.
	maxTranscripts = 2
)

// Gateway is what the watch uses of the model gateway; *gatewayapi.Client is one.
type Gateway interface {
	Status(ctx context.Context, route string) (gatewayapi.RouteStatus, error)
	Watch(route string, since int64, pause time.Duration) (changes <-chan *gatewayapi.Change, stop func())
	End(ctx context.Context, route, reason string) error
	AddSessions(ctx context.Context, route, process string, sessions ...string) error
	Turns(ctx context.Context, route string, n int) ([]gatewayapi.Turn, error)
	Probe(ctx context.Context, route string) error
}

// Signaller sends a signal to a workflow; client.Client is one.
type Signaller interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
}

// Inspector returns what a sandbox has used so far; *sandbox.Backend is one.
type Inspector interface {
	Inspect(ctx context.Context, id string) (driver.Usage, error)
}

// Options are the dependencies of a Watcher.
type Options struct {
	Gateway Gateway
	Store   *store.Store
	Signals Signaller

	// nil: no bound
	Starts *host.Starts

	// nil: none
	Events *eventlog.Logs
	// Suspended measures how long this process was suspended; nil: not measured.
	Suspended *clock.SuspendMonitor
}

// Watcher watches the agents of a host. It is safe for concurrent use.
type Watcher struct {
	Options
	transcripts *semaphore.Weighted
	checkpoints checkpoints

	mu sync.Mutex

	// takes the requests for a watched agent's transcript, by sandbox
	requests map[string]chan<- transcriptRequest
}

// New makes a Watcher.
func New(o Options) *Watcher {
	return &Watcher{
		Options:     o,
		transcripts: semaphore.NewWeighted(maxTranscripts),
		requests:    map[string]chan<- transcriptRequest{},
	}
}

// Job is one agent to watch.
type Job struct {
	RolloutID string
	Attempt   int

	// and the id of the gateway's route
	SandboxID string
	Sandboxes Inspector
	Kind      agent.Kind

	// the watch sets Events
	Env agent.Env

	// the watch sets Launch
	Work   agent.Job
	Limits rollout.Limits
	Logger *slog.Logger
}

// Result is how the agent's work ended. A failure of the infrastructure is an error of Run instead.
type Result struct {
	Outcome rollout.Outcome

	// -1 if it did not end by itself
	ExitCode  int
	Error     string
	Turns     int
	SessionID string

	// see agent.Status
	Malformed int
	// Held is the time for which the gateway held the agent's calls back, see gatewayapi.RouteStatus, or no
	// worker ran an agent that runs in it.
	Held time.Duration
}

// watch is one run of Watcher.Run.
type watch struct {
	*Watcher
	job      *Job
	log      *slog.Logger
	state    State
	reporter progressReporter
	events   *eventReporter
	requests chan transcriptRequest

	run      agent.Run
	statuses *statuses
	routes   <-chan *gatewayapi.Change

	// the timer of wait
	timer *time.Timer

	// when the status of the route was last requested, apart from routes
	statusAt time.Time

	// the session that the gateway knows
	pinned pin

	// releases the slot of a start; nil: none is held
	releaseStart func()

	// CPU time of the sandbox when the launch began
	cpuAt time.Duration

	// total of Suspended that was credited
	suspended time.Duration
}

// Run launches the agent, or attaches to the running one, and returns when it is done or a bound has ended
// it. The agent's time counts from its first model call, or from startGrace after its first launch, however
// often Run is called.
//
// A host has one Run for each of its agents, so large values are on the heap: the runtime doubles a stack
// that is too small.
func (wr *Watcher) Run(ctx context.Context, j *Job) (*Result, error) {
	w := newWatch(wr, j)
	defer w.closeRun()

	if err := w.openAgent(ctx); err != nil {
		return nil, err
	}
	// ended before the agent was ever launched
	if w.run == nil {
		return &Result{Outcome: rollout.Aborted, ExitCode: -1, Error: w.state.Route.Ended}, nil
	}
	defer wr.acceptRequests(j.SandboxID, w.requests)()

	routes, stop := wr.Gateway.Watch(j.SandboxID, w.state.Route.Version, routePause)
	defer stop()

	w.routes = routes

	res, err := w.loop(ctx)
	if err != nil {
		w.keepCheckpoint()
	}

	return res, err
}

func newWatch(wr *Watcher, j *Job) *watch {
	w := &watch{
		Watcher:  wr,
		job:      j,
		log:      j.Logger,
		reporter: newProgressReporter(j),
		requests: make(chan transcriptRequest),
		timer:    time.NewTimer(longestWait),
	}
	w.events = &eventReporter{log: wr.Events.Of(rollout.Target{RolloutID: j.RolloutID, Attempt: j.Attempt})}
	w.job.Env.Events = agent.NewReporter(w.events.log)
	w.state.Limits, w.state.NoModel = j.Limits, j.Kind.NoModel
	_, w.suspended = wr.Suspended.Read()

	return w
}

// openAgent reads the route's status and opens the agent.
func (w *watch) openAgent(ctx context.Context) error {
	route, err := w.Gateway.Status(ctx, w.job.SandboxID)
	if err != nil {
		return err
	}

	w.state.observeRoute(time.Now(), route)

	return w.open(ctx)
}

// loop decides and acts until the decision is End.
func (w *watch) loop(ctx context.Context) (*Result, error) {
	for {
		d, err := w.decide(ctx)
		if err != nil {
			return nil, err
		}

		w.recordCheckpoint(ctx)

		switch d.Action {
		case Continue:
			w.events.report(ctx, w)
			err = w.wait(ctx, w.reporter.report(ctx, w))
		case Probe:
			err = w.probe(ctx)
		case Relaunch:
			err = w.relaunch(ctx, d.Text)
		default:
			return w.finish(ctx, d)
		}

		if err != nil {
			return nil, err
		}
	}
}

// probe sends a request to the endpoint from outside the sandbox. While the endpoint is paused or the
// gateway does not answer, it is repeated for gatewayPatience.
func (w *watch) probe(ctx context.Context) error {
	err, now := w.Gateway.Probe(ctx, w.job.SandboxID), time.Now()
	if ctx.Err() != nil {
		return ctx.Err()
	}

	if w.state.ProbeFrom.IsZero() {
		w.state.ProbeFrom = now
	}

	if fault.Is(err, fault.Unavailable) && now.Sub(w.state.ProbeFrom) < gatewayPatience {
		return w.state.observeGatewayError(now, err)
	}

	w.state.Probed, w.state.Probe = true, err

	return nil
}

// decide calls Decide. After the end of the agent's time or a suspension of this process it first reads the
// route's status again: the time for which calls are held back changes without a new version.
func (w *watch) decide(ctx context.Context) (Decision, error) {
	for {
		suspended, end := w.creditSuspension(), w.state.deadline()
		if !suspended && (w.state.Now.Before(end) || !w.statusAt.Before(end)) {
			return Decide(w.state), nil
		}

		if err := w.refreshRoute(ctx); err != nil {
			return Decision{}, err
		}
	}
}

// wait handles the next change. It returns at the latest when the next report is due or a bound may be reached.
func (w *watch) wait(ctx context.Context, reportDue time.Time) error {
	w.timer.Reset(time.Until(earlier(reportDue, w.nextBound(time.Now()))))

	select {
	case u := <-w.statuses.updates:
		return w.onStatus(ctx, u)
	case c := <-w.routes:
		if err := w.onRoute(c); err != nil || c.Err != nil {
			return err
		}
		// the calls of a gateway that answers again may wait for it
		return w.pinSession(ctx)
	case r := <-w.requests:
		w.answer(r)
		return nil
	case <-w.timer.C:
		return w.onTimer(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// onTimer updates the state when a bound may be reached, and retries a gateway that did not answer.
func (w *watch) onTimer(ctx context.Context) error {
	w.state.Now = time.Now()
	switch {
	case !w.state.GatewayDown.IsZero():
		return w.retryGateway(ctx)
	case w.state.Now.Before(w.state.deadline()):
		return w.sample(ctx)
	default:
		// the unanswered time changes without a new version
		return w.refreshRoute(ctx)
	}
}

// onStatus records the agent's status. After the agent's end it reads the route's status again, so that an
// agent killed by an abort does not look like one that died by itself.
func (w *watch) onStatus(ctx context.Context, u *update) error {
	if u.err != nil {
		return u.err
	}

	w.state.observeAgent(time.Now(), u.status)

	if u.status.Ready || u.status.Done {
		w.endStart()
	}

	if err := w.pinSession(ctx); err != nil || !u.status.Done {
		return err
	}

	return w.refreshRoute(ctx)
}

func (w *watch) refreshRoute(ctx context.Context) error {
	w.statusAt = time.Now()
	route, err := w.Gateway.Status(ctx, w.job.SandboxID)

	return w.onRoute(&gatewayapi.Change{Status: route, Err: err})
}

// retryGateway repeats the requests that the gateway did not answer. The watch of the route uses another
// connection and may not have noticed, so no change of the route would follow.
func (w *watch) retryGateway(ctx context.Context) error {
	if err := w.pinSession(ctx); err != nil {
		return err
	}

	return w.refreshRoute(ctx)
}

// pin is a session of a launch's process.
type pin struct{ process, session string }

// pinSession sends the agent's session to the gateway, which from then on treats calls of other sessions as foreign.
// Until then the gateway holds the calls of the launch.
func (w *watch) pinSession(ctx context.Context) error {
	id := w.state.Agent.SessionID

	this := pin{agent.ProcessName(w.state.Launch.Number), id}
	if !w.job.Kind.Sessions || !w.state.Agent.Ready || id == "" || this == w.pinned {
		return nil
	}

	if err := w.Gateway.AddSessions(ctx, w.job.SandboxID, this.process, id); err != nil {
		// retryGateway tries again
		return w.state.observeGatewayError(time.Now(), err)
	}

	w.pinned = this

	return nil
}

func (w *watch) onRoute(c *gatewayapi.Change) error {
	if c.Err != nil {
		return w.state.observeGatewayError(time.Now(), c.Err)
	}

	w.state.observeRoute(time.Now(), c.Status)

	return nil
}

// nextBound is when a bound of the agent may be reached, or its progress is measured next.
func (w *watch) nextBound(now time.Time) time.Time {
	s, end, sample := &w.state, w.state.deadline(), now.Add(sampleEvery)
	// the end moves, or an unanswered call decides
	if end.Before(sample) && (s.Route.Holding || !now.Before(end)) {
		end = sample
	}

	bounds := []time.Time{end, s.LastChange.Add(s.Limits.Quiet), s.Attached.Add(attachGrace)}
	if !s.GatewayDown.IsZero() {
		bounds = append(bounds, now.Add(awayPause))
	}

	if !s.BudgetSpentAt.IsZero() {
		bounds = append(bounds, s.BudgetSpentAt.Add(budgetGrace+time.Millisecond))
	}

	if s.noCall() {
		bounds = append(bounds, sample, s.Progress.Add(s.Limits.FirstCall))
	}

	next := now.Add(longestWait)
	for _, b := range bounds {
		if b.After(now) {
			next = earlier(next, b)
		}
	}

	return next
}
