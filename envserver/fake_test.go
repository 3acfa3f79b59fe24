package envserver_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/traceindex"
)

// Instructions that the fake engine understands. Every other rollout is done at once.
const (
	// runs until finished or aborted
	waits = "wait"

	// cannot be started
	fails = "fail"

	// the engine panics
	panics = "panic"
)

// fake is an in-memory engine.
type fake struct {
	mu       sync.Mutex
	specs    map[string]rollout.Spec
	done     map[string]chan struct{}
	ended    map[string]rollout.Outcome
	aborts   map[string]string
	messages map[string]rollout.Transcript
	traces   map[string]string

	// of every rollout; set before the first
	phases []rollout.PhaseTiming

	// a reader of events also gets one that is not in the log; set before the first
	unlogged bool

	// model calls among the events of every rollout; set before the first
	calls int

	// start and end of a tool call in every rollout; set before the first
	toolCall []rollout.ToolEvent

	// of every result; set before the first
	turns []rollout.CompactTurn

	// events of every rollout, beside those above; set before the first
	log []rollout.Event

	// changes every result; nil: nothing; set before the first
	edit func(*rollout.Result)

	// of every trace; empty: see left; set before the first
	lines string

	// traces of single rollouts, by id; others have lines; set before the first
	tracesByID map[string]string

	// rollouts that have not ended await their score; set before the first
	scoring bool

	// content of every artifact; empty: name and id of the rollout
	left string
}

func newFake() *fake {
	return &fake{
		specs:    map[string]rollout.Spec{},
		turns:    []rollout.CompactTurn{},
		done:     map[string]chan struct{}{},
		ended:    map[string]rollout.Outcome{},
		traces:   map[string]string{},
		aborts:   map[string]string{},
		messages: map[string]rollout.Transcript{},
	}
}

// traceOf returns the id of the trace in which a rollout was started.
func (f *fake) traceOf(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.traces[id]
}

func (f *fake) Start(ctx context.Context, s rollout.Spec) (rollout.State, error) {
	switch s.Task.Instruction {
	case fails:
		return rollout.State{}, fault.New(fault.Unavailable, "the engine does not answer")
	case panics:
		panic("a bug")
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if _, there := f.specs[s.ID]; !there {
		f.specs[s.ID], f.done[s.ID] = s, make(chan struct{})

		f.traces[s.ID] = trace.SpanContextFromContext(ctx).TraceID().String()
		if s.Task.Instruction != waits {
			f.end(s.ID, rollout.Completed)
		}
	}

	return f.state(s.ID), nil
}

// end ends a rollout. The caller holds f.mu.
func (f *fake) end(id string, o rollout.Outcome) {
	f.ended[id] = o
	close(f.done[id])
}

// started adds a rollout that has ended.
func (f *fake) started(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.specs[id], f.done[id] = rollout.Spec{ID: id}, make(chan struct{})
	f.end(id, rollout.Completed)
}

func (f *fake) finish(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.end(id, rollout.Completed)
}

func (f *fake) state(id string) rollout.State {
	at := time.Unix(1_700_000_000, 500_000_000)

	s := rollout.State{
		Phases:    f.phases,
		ID:        id,
		Owner:     f.specs[id].Owner,
		TaskID:    f.specs[id].Task.ID,
		Phase:     rollout.PhaseAgent,
		Attempt:   1,
		Turns:     2,
		SessionID: "ses_1",
		StartedAt: at,
	}
	if f.scoring {
		s.Phase = rollout.PhaseScoring
	}

	if o, over := f.ended[id]; over {
		later := at.Add(time.Minute)
		s.Phase, s.Outcome, s.FinishedAt = rollout.PhaseDone, o, &later
	}

	return s
}

func (f *fake) State(_ context.Context, id string) (rollout.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if _, there := f.specs[id]; !there {
		return rollout.State{}, fault.New(fault.NotFound, "no rollout %s", id)
	}

	return f.state(id), nil
}

func (f *fake) Owner(_ context.Context, id string) (string, error) {
	spec, there := f.spec(id)
	if !there {
		return "", fault.New(fault.NotFound, "no rollout %s", id)
	}

	return spec.Owner, nil
}

func (f *fake) Wait(ctx context.Context, id string) (rollout.Result, error) {
	f.mu.Lock()
	done := f.done[id]
	f.mu.Unlock()

	if done == nil {
		return rollout.Result{}, fault.New(fault.NotFound, "no rollout %s", id)
	}

	select {
	case <-done:
	case <-ctx.Done():
		return rollout.Result{}, ctx.Err()
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	return f.result(id).Head(), nil
}

func (f *fake) result(id string) rollout.Result {
	spec, reward := f.specs[id], 0.5

	r := rollout.Result{
		ID:            id,
		TaskID:        spec.Task.ID,
		GroupID:       spec.GroupID,
		SandboxID:     id + ".1",
		Mode:          spec.Mode,
		Outcome:       f.ended[id],
		ProxyTurns:    f.turns,
		WorkdirFiles:  map[string]string{"größe.txt": "<ok> & done"},
		SetupResults:  []rollout.CommandResult{},
		VerifyResults: []rollout.CommandResult{},
		Files:         map[string]string{},
		FilesExtra:    []string{},
		Attempts:      []rollout.Attempt{},
		Links:         map[string]string{},
	}
	if r.Outcome.MayCarryReward() {
		r.Reward = &reward
	}

	for i, cmd := range spec.Task.Verifier.Commands {
		r.VerifyResults = append(r.VerifyResults, rollout.CommandResult{
			Cmd:      cmd,
			ExitCode: i,
			Stdout:   "out of " + cmd,
			Stderr:   "err of " + cmd + "\n",
		})
	}

	if f.edit != nil {
		f.edit(&r)
	}

	return r
}

func (f *fake) Messages(_ context.Context, id string) (rollout.Transcript, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	t, there := f.messages[id]
	if !there {
		return t, fault.New(fault.NotFound, "no transcript of %s", id)
	}

	return t, nil
}

// Events emits the phases, a text at the end of the rollout, and its end.
func (f *fake) Events(ctx context.Context, id string, after int64, emit func([]rollout.Event) error) error {
	state, err := f.State(ctx, id)
	if err != nil {
		return err
	}

	send := func(n int64, kind rollout.EventKind, data any) error {
		raw, err := json.Marshal(data)
		if err != nil || rollout.EventID(1, n) <= after {
			return err
		}

		return emit([]rollout.Event{{ID: rollout.EventID(1, n), Kind: kind, Data: raw}})
	}

	if f.unlogged {
		if err := emit([]rollout.Event{{Kind: rollout.EventWaiting, Data: json.RawMessage(`{}`)}}); err != nil {
			return err
		}
	}

	for i, p := range state.Phases {
		if err := send(int64(i+1), rollout.EventPhase, rollout.PhaseEvent{
			Phase:   p.Phase,
			Attempt: p.Attempt,
			Start:   p.Start,
		}); err != nil {
			return err
		}
	}

	for i, kind := range []rollout.EventKind{rollout.EventToolStart, rollout.EventToolEnd} {
		if i >= len(f.toolCall) {
			break
		}

		if err := send(int64(len(state.Phases)+i+1), kind, f.toolCall[i]); err != nil {
			return err
		}
	}

	for i, e := range f.log {
		if err := send(int64(200+i), e.Kind, e.Data); err != nil {
			return err
		}
	}

	for i := range f.calls {
		if err := send(int64(100+i), rollout.EventTurn, rollout.TurnEvent{
			Stamp: rollout.Stamp{Attempt: 1},
			Turn:  i + 1,
		}); err != nil {
			return err
		}
	}

	if _, err := f.Wait(ctx, id); err != nil {
		return err
	}

	if state, err = f.State(ctx, id); err != nil {
		return err
	}

	if err := send(10, rollout.EventText, rollout.TextEvent{Text: "two\nlines"}); err != nil {
		return err
	}

	return send(11, rollout.EventDone, state)
}

func (f *fake) said(id, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	raw, _ := json.Marshal(map[string]any{"info": map[string]string{"role": "assistant"}, "parts": []string{text}})
	f.messages[id] = rollout.Transcript{SessionID: "ses_1", Messages: []json.RawMessage{raw}}
}

func (f *fake) Abort(_ context.Context, id, reason string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if _, there := f.specs[id]; !there {
		return false, fault.New(fault.NotFound, "no rollout %s", id)
	}

	if _, over := f.ended[id]; over {
		return false, nil
	}

	f.aborts[id] = reason
	f.end(id, rollout.Aborted)

	return true, nil
}

func (f *fake) aborted(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.aborts[id] != ""
}

func (f *fake) TaskFiles(_ context.Context, id string) (map[string]string, error) {
	s, _ := f.spec(id)
	if s.Task.FilesRef != nil {
		return map[string]string{"/home/user/workdir/a.txt": "of the archive"}, nil
	}

	return s.Task.Files, nil
}

func (f *fake) Spec(_ context.Context, id string) (rollout.Spec, error) {
	s, there := f.spec(id)
	if !there {
		return s, fault.New(fault.NotFound, "no rollout %s", id)
	}

	return s, nil
}

func (f *fake) spec(id string) (rollout.Spec, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()

	s, there := f.specs[id]

	return s, there
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()

	return len(f.specs)
}

func (f *fake) List(_ context.Context, q rollout.Filter) (rollout.Page, error) {
	if err := q.Validate(); err != nil {
		return rollout.Page{}, err
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	page := rollout.Page{Rollouts: []rollout.Listed{}}

	for _, id := range slices.Sorted(maps.Keys(f.specs)) {
		s := f.state(id)
		if (q.TaskID == "" || s.TaskID == q.TaskID) && (q.Status == "" || (q.Status == "done") == s.Done()) &&
			id > q.Cursor &&
			(q.Owner == "" || s.Owner == q.Owner) &&
			(q.Query == "" || s.Done() && strings.Contains(f.specs[id].Task.Instruction, q.Query)) &&
			(q.GroupID == "" || f.specs[id].GroupID == q.GroupID) &&
			(q.Model == "" || f.specs[id].Model.Name == q.Model) &&
			(q.MinReward == nil || s.Reward != nil && *s.Reward >= *q.MinReward) &&
			(q.MaxReward == nil || s.Reward != nil && *s.Reward <= *q.MaxReward) &&
			!s.StartedAt.Before(q.Since) && (q.Until.IsZero() || s.StartedAt.Before(q.Until)) &&
			(q.Outcome == "" || s.Outcome == q.Outcome) {
			page.Rollouts = append(page.Rollouts, rollout.Listed{
				ID:      s.ID,
				TaskID:  s.TaskID,
				GroupID: s.GroupID,
				Owner:   s.Owner,
				Agent:   f.specs[id].Agent,
				Phase:   s.Phase,
				Outcome: s.Outcome,
				Reward:  s.Reward,
			})
			if q.Detail && !s.Done() {
				page.Rollouts[len(page.Rollouts)-1].Waiting = "vllm is <unreachable>"
			}

			if q.Query != "" {
				page.Rollouts[len(page.Rollouts)-1].Match = f.specs[id].Task.Instruction
			}
		}
	}

	if len(page.Rollouts) > q.Limit {
		page.Rollouts = page.Rollouts[:q.Limit]
		page.Next = page.Rollouts[q.Limit-1].ID
	}

	return page, nil
}

// Counts counts what List lists, in one period and without bins.
func (f *fake) Counts(ctx context.Context, q rollout.Filter) (rollout.Counts, error) {
	c := rollout.Counts{Outcomes: map[rollout.Outcome]int{}, Rewards: []rollout.Bin{}, Turns: []rollout.Bin{}, Durations: []rollout.Bin{}, Periods: []rollout.Period{}, Versions: []rollout.VersionCounts{}}

	q.Status, q.Limit = rollout.StatusDone, 1000

	page, err := f.List(ctx, q)
	for _, r := range page.Rollouts {
		c.Rollouts++
		c.Outcomes[r.Outcome]++
	}

	if at := time.Unix(1_700_000_000, 0); c.Rollouts > 0 {
		c.Periods = []rollout.Period{{Start: at, End: at.Add(time.Minute), Rollouts: c.Rollouts, Outcomes: c.Outcomes}}
	}

	return c, err
}

// Open returns fault.NotFound for the output of a verifier's script if the task has none.
func (f *fake) Open(_ context.Context, id, name string) (io.ReadCloser, error) {
	if name == "result" && f.left == "" {
		f.mu.Lock()
		defer f.mu.Unlock()

		var b bytes.Buffer

		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)

		if err := enc.Encode(f.result(id)); err != nil {
			return nil, err
		}

		return io.NopCloser(bytes.NewReader(bytes.TrimSpace(b.Bytes()))), nil
	}

	if lines := cmp.Or(f.tracesByID[id], f.trace()); name == "trace" && lines != "" {
		return io.NopCloser(strings.NewReader(lines)), nil
	}

	if spec, _ := f.spec(id); strings.HasPrefix(name, "verifier.") && spec.Task.Verifier.Script == "" {
		return nil, fault.New(fault.NotFound, "no script")
	}

	return io.NopCloser(strings.NewReader(cmp.Or(f.left, name+" of "+id+"\n"))), nil
}

// Index returns the index of what Open reads.
func (f *fake) Index(ctx context.Context, id string, read func(*traceindex.Index) error) error {
	lines, err := f.Open(ctx, id, "trace")
	if err != nil {
		return err
	}
	defer lines.Close()

	index, err := traceindex.Of(lines)
	if err != nil {
		return err
	}

	return read(index)
}

// setTraceLines sets the lines of every trace.
func (f *fake) setTraceLines(lines string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.lines = lines
}

func (f *fake) trace() string {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.lines
}
