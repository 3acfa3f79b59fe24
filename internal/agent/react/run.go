package react

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// statusEvery is the longest wait of Next.
	statusEvery = 10 * time.Second
	// checkEvery is how often Next checks that the sandbox exists, which a loop that waits for its model
	// does not notice. It is longer than the idle timeout of connections to the sandbox, so that a waiting
	// rollout has none.
	checkEvery = 30 * time.Second
)

// run implements agent.Run. The loop begins with the first Next or Transcript, from the first step.
type run struct {
	env     agent.Env
	job     agent.Job
	launch  agent.Launch
	journal *journal

	startOnce sync.Once

	// the context of the loop
	ctx    context.Context
	cancel context.CancelFunc

	// the first status was returned
	ready bool

	// when the sandbox was last checked
	checked time.Time

	// closed when the loop is over; then status and err are set
	done   chan struct{}
	status *agent.Status
	err    error
}

var _ agent.Run = (*run)(nil)

func newRun(env agent.Env, job agent.Job, launch agent.Launch) *run {
	ctx, cancel := context.WithCancel(context.Background())

	return &run{
		env: env, job: job, launch: launch, journal: newJournal(fmt.Sprintf("react-%d", launch.Number), env.Events),
		ctx: ctx, cancel: cancel, done: make(chan struct{}),
	}
}

// Launch implements agent.Run.
func (r *run) Launch() agent.Launch { return r.launch }

// start begins the loop once.
func (r *run) start() {
	r.startOnce.Do(func() {
		go func() {
			defer close(r.done)

			r.status, r.err = r.work()
		}()
	})
}

// work runs the loop to its end.
func (r *run) work() (*agent.Status, error) {
	st, err := r.workUntilStopped()
	if err != nil && r.ctx.Err() != nil {
		return stopped(), nil
	}

	return st, err
}

func (r *run) workUntilStopped() (*agent.Status, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}

	l, err := r.newLoop()
	if err != nil {
		return nil, err
	}

	return l.run(r.ctx, r.job.Instruction)
}

// newLoop creates the loop. It begins with a replay of the recorded calls.
func (r *run) newLoop() (*loop, error) {
	recorded, err := r.recorded()
	if err != nil {
		return nil, err
	}

	r.journal.setRecorded(recorded)
	config := r.job.React.Filled()
	l := &loop{
		config:       config,
		launch:       r.launch.Number,
		tools:        r.env.Tools,
		journal:      r.journal,
		conversation: r.newConversation(config),
	}
	r.journal.addInstruction(l.system(), r.job.Instruction)

	return l, nil
}

// stopped is the status of a loop that Stop or Close ended.
func stopped() *agent.Status {
	return &agent.Status{Done: true, ExitCode: 130, Error: "the agent was stopped"}
}

// newConversation creates the conversation in the form of the job's configuration.
func (r *run) newConversation(config rollout.React) conversation {
	byChat := &chat{
		model:    r.env.Model,
		sampling: sampling{Model: "m", Temperature: config.Temperature, MaxTokens: config.MaxTokens},
	}
	if config.Tools == rollout.ToolsNative {
		byChat.tools = nativeTools(r.env.Tools.Definitions())
		return byChat
	}

	if config.Continuation == rollout.ContinueMessages ||
		!r.job.Model.TokenIDs && config.Continuation != rollout.ContinueTokens {
		return byChat
	}

	return &byTokens{chat: byChat, required: config.Continuation == rollout.ContinueTokens}
}

// recorded is the number of recorded replies. Like a model call it retries until the gateway answers.
func (r *run) recorded() (int, error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		route, err := r.env.Model.Status(r.ctx)
		if !fault.Is(err, fault.Unavailable) {
			return route.Turns, err
		}

		if err := sleep(r.ctx, pause); err != nil {
			return 0, err
		}
	}
}

// Next implements agent.Run.
func (r *run) Next(ctx context.Context) (agent.Status, error) {
	r.start()

	if !r.ready {
		select {
		case <-r.done:
		default:
			r.ready, r.checked = true, time.Now()
			return r.working(), nil
		}
	}

	timer := time.NewTimer(statusEvery)
	defer timer.Stop()

	select {
	case <-r.done:
		return r.finishedStatus()
	default:
	}

	select {
	case <-r.done:
		return r.finishedStatus()
	case <-timer.C:
		return r.working(), r.checkSandbox(ctx)
	case <-ctx.Done():
		return agent.Status{}, fault.Wrap(fault.Unavailable, ctx.Err(), "wait for react")
	}
}

// checkSandbox checks every checkEvery that the sandbox exists.
func (r *run) checkSandbox(ctx context.Context) error {
	if time.Since(r.checked) < checkEvery {
		return nil
	}

	r.checked = time.Now()
	_, err := r.env.Sandbox.Status(ctx, agent.ProcessName(r.launch.Number))

	return err
}

// working is the status of a running loop. A wait for the model or a tool counts as life, because both have
// their own bounds.
func (r *run) working() agent.Status {
	return agent.Status{
		SessionID: r.journal.session,
		Ready:     true,
		LastSign:  time.Now(),
		Malformed: r.journal.malformedCalls(),
	}
}

// finishedStatus is the status of a finished loop.
func (r *run) finishedStatus() (agent.Status, error) {
	if r.err != nil {
		return agent.Status{}, r.err
	}

	st := *r.status
	st.LastSign, st.Malformed = r.journal.lastChange(), r.journal.malformedCalls()
	st.SessionID, st.Ready = r.journal.session, true

	return st, nil
}

// Transcript implements agent.Run. It waits for the end of a replay.
func (r *run) Transcript(ctx context.Context) (rollout.Transcript, error) {
	r.start()

	select {
	case <-r.journal.replayed:
	case <-r.done:
	case <-ctx.Done():
		return rollout.Transcript{}, fault.Wrap(fault.Unavailable, ctx.Err(), "replay of react")
	}

	t, err := r.journal.transcript()
	if err == nil && len(t.Messages) == 0 {
		return t, fault.New(fault.NotFound, "react has not begun")
	}

	return t, fault.Wrap(fault.Internal, err, "transcript")
}

// Output implements agent.Run: the loop writes no streams.
func (r *run) Output(ctx context.Context, limit int) ([]byte, error) {
	return agent.ProcessOutput(ctx, r.env.Sandbox, r.launch.Number, limit)
}

// Stop implements agent.Run. A command that a tool has started may run until the sandbox ends.
func (r *run) Stop(context.Context) error {
	r.Close()
	return nil
}

// Close implements agent.Run. It ends the loop; the next Run of this launch replays it.
func (r *run) Close() {
	r.cancel()
	// sets the status of a run that is closed before its start
	r.start()
	<-r.done
}
