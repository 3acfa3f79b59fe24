package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/store"
)

const (
	// sampleEvery is how often the CPU time of an agent is measured that has not called its model yet.
	sampleEvery = 5 * time.Second
	// awayPause is the time between a request that the gateway did not answer and the next one, where the watch of the route says nothing meanwhile.
	awayPause = 5 * time.Second
	// longestWait bounds the wait for a change, in case one is missed.
	longestWait = time.Minute
	// routePause is the least time between two changes of the route. A call that ends and the next one that begins are then one change: the change
	// and the request for the new turns cost as much as the calls.
	routePause = 100 * time.Millisecond
	// maxTranscripts is how many transcripts are in memory at once. One of 32 MiB takes some four times that while it is saved.
	maxTranscripts = 2
)

// Gateway is what the watch uses of the model gateway; *gateway.Client is one.
type Gateway interface {
	Status(ctx context.Context, route string) (gateway.RouteStatus, error)
	Watch(route string, since int64, pause time.Duration) (changes <-chan *gateway.Change, stop func())
	End(ctx context.Context, route, reason string) error
	AddSessions(ctx context.Context, route string, sessions ...string) error
	Turns(ctx context.Context, route string, n int) ([]gateway.Turn, error)
	Probe(ctx context.Context, route string) error
}

// Signaller sends a signal to a workflow; client.Client is one.
type Signaller interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
}

// Inspector tells what a sandbox used so far; *sandbox.Backend is one.
type Inspector interface {
	Inspect(ctx context.Context, id string) (driver.Usage, error)
}

// Options are what a Watcher works with.
type Options struct {
	Gateway Gateway
	Store   *store.Store
	Signals Signaller
	Starts  *host.Starts   // nil: no bound
	Events  *eventlog.Logs // nil: none
	// Standstill measures for how long this process did not run; nil: it is not known.
	Standstill *clock.Standstill
}

// Watcher watches the agents of a host. It is safe for concurrent use.
type Watcher struct {
	Options
	transcripts *semaphore.Weighted
	ran         marks

	mu     sync.Mutex
	asking map[string]chan<- question // of the agents that are watched, by sandbox
}

// New makes a Watcher.
func New(o Options) *Watcher {
	return &Watcher{Options: o, transcripts: semaphore.NewWeighted(maxTranscripts), asking: map[string]chan<- question{}}
}

// Job is one agent to watch.
type Job struct {
	RolloutID string
	Attempt   int
	SandboxID string // and the id of the gateway's route
	Sandboxes Inspector
	Kind      agent.Kind
	Env       agent.Env // its Events is the watch's to set
	Work      agent.Job // its Launch is the watch's to set
	Limits    rollout.Limits
	Logger    *slog.Logger
}

// Result is how the agent's work ended. What kept the agent from working at all is an error instead.
type Result struct {
	Outcome   rollout.Outcome
	ExitCode  int // -1 when it did not end by itself
	Error     string
	Turns     int
	SessionID string
	Malformed int // see agent.Status
	// Held is for how long the gateway held the agent's calls back, see gateway.RouteStatus, or no worker ran an agent that runs in it.
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
	asked    chan question

	run      agent.Run
	statuses *statuses
	routes   <-chan *gateway.Change
	timer    *time.Timer   // of wait
	statusAt time.Time     // when the gateway was asked for the status last, beside routes
	pinned   string        // the session that the gateway knows
	starting func()        // gives the slot of a start back; nil: there is none
	cpuAt    time.Duration // CPU time of the sandbox when the launch began
	stood    time.Duration // for how long this process had stood still when that was credited last
}

// Run launches the agent, or attaches to the one that runs, and returns when it is done or one of its bounds has ended it. The
// agent's time counts from its first model call, or from startGrace after its first launch, however often Run is called.
//
// A host waits in it for each of its agents, so what is large is on the heap: the runtime doubles a stack that does not suffice.
func (wr *Watcher) Run(ctx context.Context, j *Job) (*Result, error) {
	w := newWatch(wr, j)
	defer w.closeRun()
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	if w.run == nil { // ended before the agent was ever launched
		return &Result{Outcome: rollout.Aborted, ExitCode: -1, Error: w.state.Route.Ended}, nil
	}
	defer wr.takeQuestions(j.SandboxID, w.asked)()
	routes, stop := wr.Gateway.Watch(j.SandboxID, w.state.Route.Version, routePause)
	defer stop()
	w.routes = routes
	res, err := w.loop(ctx)
	if err != nil {
		w.keepMark()
	}
	return res, err
}

func newWatch(wr *Watcher, j *Job) *watch {
	w := &watch{Watcher: wr, job: j, log: j.Logger, reporter: newProgressReporter(j), asked: make(chan question), timer: time.NewTimer(longestWait)}
	w.events = &eventReporter{log: wr.Events.Of(rollout.Target{RolloutID: j.RolloutID, Attempt: j.Attempt})}
	w.job.Env.Events = agent.NewReporter(w.events.log)
	w.state.Limits, w.state.NoModel = j.Limits, j.Kind.NoModel
	_, w.stood = wr.Standstill.Look()
	return w
}

// begin takes in the route's status and opens the agent.
func (w *watch) begin(ctx context.Context) error {
	route, err := w.Gateway.Status(ctx, w.job.SandboxID)
	if err != nil {
		return err
	}
	w.state.sawRoute(time.Now(), route)
	return w.open(ctx)
}

// loop decides and acts until the decision is an end.
func (w *watch) loop(ctx context.Context) (*Result, error) {
	for {
		d, err := w.decide(ctx)
		if err != nil {
			return nil, err
		}
		w.note(ctx)
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

// probe asks the endpoint from outside the sandbox. One that was not asked, since it is paused or the gateway is away, is asked again for a while.
func (w *watch) probe(ctx context.Context) error {
	err, now := w.Gateway.Probe(ctx, w.job.SandboxID), time.Now()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w.state.Unprobed.IsZero() {
		w.state.Unprobed = now
	}
	if fault.Is(err, fault.Unavailable) && now.Sub(w.state.Unprobed) < gatewayPatience {
		return w.state.sawNoGateway(now, err)
	}
	w.state.Probed, w.state.Probe = true, err
	return nil
}

// decide decides by a status of the route that is as new as the end of the agent's time: for how long calls are held back changes without a change
// of the version. It is also newer than a standstill of this process, in which calls may have been held back.
func (w *watch) decide(ctx context.Context) (Decision, error) {
	for {
		stood, end := w.creditStandstill(), w.state.end()
		if !stood && (w.state.Now.Before(end) || !w.statusAt.Before(end)) {
			return Decide(w.state), nil
		}
		if err := w.refreshRoute(ctx); err != nil {
			return Decision{}, err
		}
	}
}

// wait takes in the next change, or returns at a time: the reporter's, or the next at which a bound may strike.
func (w *watch) wait(ctx context.Context, reporter time.Time) error {
	w.timer.Reset(w.untilNext(reporter))
	select {
	case u := <-w.statuses.updates:
		return w.sawStatus(ctx, u)
	case c := <-w.routes:
		return w.sawRoute(c)
	case q := <-w.asked:
		w.answer(q)
		return nil
	case <-w.timer.C:
		return w.strike(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// untilNext is how long wait waits without a change.
func (w *watch) untilNext(reporter time.Time) time.Duration {
	return time.Until(earlier(reporter, w.nextBound(time.Now())))
}

// strike looks again at a time at which a bound may strike, or asks a gateway again that did not answer.
func (w *watch) strike(ctx context.Context) error {
	w.state.Now = time.Now()
	switch {
	case !w.state.Away.IsZero():
		return w.retryGateway(ctx)
	case w.state.Now.Before(w.state.end()):
		return w.sample(ctx)
	default:
		return w.refreshRoute(ctx) // what is owed changes without a change of the version
	}
}

// sawStatus takes in the agent's status. When that is its end, the route's status of after it counts: an agent that died of an
// abort must not look like one that died by itself.
func (w *watch) sawStatus(ctx context.Context, u *update) error {
	if u.err != nil {
		return u.err
	}
	w.state.sawAgent(time.Now(), u.status)
	if u.status.Ready || u.status.Done {
		w.started()
	}
	if err := w.pinSession(ctx); err != nil || !u.status.Done {
		return err
	}
	return w.refreshRoute(ctx)
}

func (w *watch) refreshRoute(ctx context.Context) error {
	w.statusAt = time.Now()
	route, err := w.Gateway.Status(ctx, w.job.SandboxID)
	return w.sawRoute(&gateway.Change{Status: route, Err: err})
}

// retryGateway makes the requests again that the gateway did not answer. One of them may fail while the watch of the route, over another connection,
// goes on: then no change of the route would say that the gateway answers.
func (w *watch) retryGateway(ctx context.Context) error {
	if err := w.pinSession(ctx); err != nil {
		return err
	}
	return w.refreshRoute(ctx)
}

// pinSession names the session of the agent to the gateway, which takes calls of other sessions for foreign from then on.
func (w *watch) pinSession(ctx context.Context) error {
	id := w.state.Agent.SessionID
	if !w.job.Kind.Sessions || !w.state.Agent.Ready || id == "" || id == w.pinned {
		return nil
	}
	if err := w.Gateway.AddSessions(ctx, w.job.SandboxID, id); err != nil {
		return w.state.sawNoGateway(time.Now(), err) // retryGateway tries again
	}
	w.pinned = id
	return nil
}

func (w *watch) sawRoute(c *gateway.Change) error {
	if c.Err != nil {
		return w.state.sawNoGateway(time.Now(), c.Err)
	}
	w.state.sawRoute(time.Now(), c.Status)
	return nil
}

// nextBound is when a bound of the agent may strike, or its progress is measured next.
func (w *watch) nextBound(now time.Time) time.Time {
	s, next := &w.state, now.Add(longestWait)
	end := s.end()
	if next := now.Add(sampleEvery); end.Before(next) && (s.Route.Holding || !now.Before(end)) { // it moves, or a call that is owed decides
		end = next
	}
	bounds := []time.Time{end, s.Alive.Add(s.Limits.Quiet)}
	if !s.Away.IsZero() {
		bounds = append(bounds, now.Add(awayPause))
	}
	if !s.Spent.IsZero() {
		bounds = append(bounds, s.Spent.Add(budgetGrace+time.Millisecond))
	}
	if s.noCall() {
		bounds = append(bounds, now.Add(sampleEvery), s.Progress.Add(s.Limits.FirstCall))
	}
	for _, b := range bounds {
		if b.After(now) {
			next = earlier(next, b)
		}
	}
	return next
}
