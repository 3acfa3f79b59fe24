package react

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// loop is the agent at work. It is replayed after a crash: everything that it does follows from the task and the replies.
type loop struct {
	config       rollout.React
	launch       int
	conversation conversation
	tools        tool.Set
	journal      *journal
}

// step is one model call and what it called.
type step struct {
	number int // from 1
	answer *answer
	calls  []call
	began  time.Time
	ended  time.Time // of the reply
}

// run works until the final answer. A status says how the work ended; an error is one of infrastructure. A host has one
// stack that waits here for each rollout in flight, so frames are small.
func (l *loop) run(ctx context.Context, instruction string) (*agent.Status, error) {
	add, called := l.opening(instruction), 0
	for n := 1; n <= l.config.MaxSteps; n++ {
		began := time.Now()
		a, err := l.conversation.ask(ctx, l.callID(n), add)
		if err != nil {
			return failed(ctx, err)
		}
		s := &step{number: n, answer: a, began: began}
		if done := l.replied(s); done != nil {
			return done, nil
		}
		if called += len(s.calls); called > rollout.MaxEpisodeSteps { // more than a sandbox keeps the results of
			return brokeOff("reached the maximum of %d tool calls", rollout.MaxEpisodeSteps), nil
		}
		if add, err = l.respond(ctx, s); err != nil {
			return nil, err
		}
	}
	return brokeOff("reached maximum steps (%d)", l.config.MaxSteps), nil
}

// replied reads the calls of a reply. It returns the agent's end where there are none.
func (l *loop) replied(s *step) *agent.Status {
	if s.answer.Ended != "" {
		return brokeOff("no further model calls: %s", s.answer.Ended)
	}
	s.ended, s.calls = time.Now(), l.callsOf(s.number, s.answer)
	l.journal.replied(s)
	if len(s.calls) == 0 {
		return &agent.Status{Done: true}
	}
	return nil
}

// respond runs the calls of a step and returns the messages that answer them.
func (l *loop) respond(ctx context.Context, s *step) ([]message, error) {
	results, err := l.act(ctx, s)
	if err != nil {
		return nil, err
	}
	return l.responses(s.calls, results), nil
}

// brokeOff is the end of an agent that did not end by itself.
func brokeOff(format string, args ...any) *agent.Status {
	return &agent.Status{Done: true, ExitCode: 1, Error: fmt.Sprintf(format, args...)}
}

// failed is the end of a loop whose model call failed. A refused call is the agent's end, and so is a prompt that does not fit the model's context;
// what the endpoint did is in the route's status.
func failed(ctx context.Context, err error) (*agent.Status, error) {
	if ctx.Err() != nil || !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Exhausted) {
		return nil, err
	}
	st := brokeOff("model call: %v", err)
	st.Overflowed = fault.Is(err, fault.Exhausted)
	return st, nil
}

// opening is the conversation up to the first reply.
func (l *loop) opening(instruction string) []message {
	var open []message
	switch {
	case l.config.SystemPrompt != "":
		open = append(open, message{Role: "system", Content: l.config.SystemPrompt})
	case l.config.Tools == rollout.ToolsHermes:
		open = append(open, message{Role: "system", Content: systemPrompt(l.tools.Definitions())})
	}
	for _, m := range l.config.InitialMessages {
		open = append(open, message{Role: m.Role, Content: m.Content})
	}
	return append(open, message{Role: "user", Content: instruction})
}

// callID names the model call of a step.
func (l *loop) callID(step int) string { return fmt.Sprintf("react-%d-%d", l.launch, step) }

// callsOf are the tool calls of a reply, each with an id. Where the content is empty the reasoning counts.
func (l *loop) callsOf(step int, a *answer) []call {
	calls := a.Calls
	if l.config.Tools == rollout.ToolsHermes {
		text := a.Text
		if text == "" {
			text = a.Reasoning
		}
		calls = parseCalls(text, l.config.OnMalformed == rollout.MalformedFinal)
	}
	for i := range calls {
		if calls[i].ID == "" {
			calls[i].ID = fmt.Sprintf("call_%d_%d", step, i+1)
		}
	}
	return calls
}

// act runs the calls of a step: native ones beside each other, others one after another.
func (l *loop) act(ctx context.Context, s *step) ([]tool.Result, error) {
	results, errs := make([]tool.Result, len(s.calls)), make([]error, len(s.calls))
	one := func(i int) {
		began := time.Now()
		if results[i], errs[i] = l.call(ctx, s, i); errs[i] == nil {
			l.journal.called(i, results[i], began)
		}
	}
	var parallel sync.WaitGroup
	for i := range s.calls {
		if l.config.Tools == rollout.ToolsNative {
			parallel.Go(func() { one(i) })
			continue
		}
		if one(i); errs[i] != nil {
			break
		}
	}
	parallel.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

const (
	// toolTries is how often a tool call is made whose infrastructure fails, and toolPause the first pause, which doubles.
	toolTries = 6
	toolPause = 100 * time.Millisecond
)

// call runs one call and then waits for the configured delay.
func (l *loop) call(ctx context.Context, s *step, i int) (tool.Result, error) {
	c := s.calls[i]
	if c.Malformed != "" {
		return malformed(c), nil
	}
	run := tool.Call{ID: l.executionID(s.number, i, c), Name: c.Name, Arguments: c.Arguments}
	for try, pause := 1, toolPause; ; try, pause = try+1, 2*pause {
		result, err := l.tools.Call(ctx, run)
		if err == nil {
			return result, sleep(ctx, time.Duration(l.config.ToolDelayS*float64(time.Second)))
		}
		away := fault.Is(err, fault.Unavailable) || fault.Is(err, fault.ToolServerFailed)
		if !away || try == toolTries || sleep(ctx, pause) != nil {
			return tool.Result{}, fault.Wrap(fault.KindOf(err), err, "tool %s, call %d of step %d", c.Name, i+1, s.number)
		}
	}
}

// executionID names the execution of a call. The policy's own id is no part of it: policies repeat theirs.
func (l *loop) executionID(step, i int, c call) string {
	sum := sha256.Sum256([]byte(c.Name + "\x00" + string(c.Arguments)))
	return fmt.Sprintf("react-%d-%d-%d-%s", l.launch, step, i+1, hex.EncodeToString(sum[:4]))
}

// responses are the messages that answer the calls: one user message, or one tool message for each native call.
func (l *loop) responses(calls []call, results []tool.Result) []message {
	if l.config.Tools == rollout.ToolsNative {
		add := make([]message, len(calls))
		for i, c := range calls {
			add[i] = message{Role: "tool", Content: responseJSON("", results[i]), ToolCallID: c.ID}
		}
		return add
	}
	blocks := make([]string, len(calls))
	for i, c := range calls {
		blocks[i] = response(c.ID, results[i])
	}
	return []message{{Role: "user", Content: strings.Join(blocks, "\n")}}
}

// sleep waits for d; its error says that the loop was stopped.
func sleep(ctx context.Context, d time.Duration) error {
	if clock.Sleep(ctx, d) != nil {
		return fault.Wrap(fault.Unavailable, context.Cause(ctx), "the agent's loop was stopped")
	}
	return nil
}
