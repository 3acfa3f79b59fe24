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

// loop runs the agent. It is deterministic in the task and the replies, so that it can be replayed after a crash.
type loop struct {
	config       rollout.React
	launch       int
	conversation conversation
	tools        tool.Set
	journal      *journal
}

// step is one model call and the tool calls of its reply.
type step struct {
	// from 1
	number int
	answer *answer
	calls  []call
	began  time.Time

	// when the reply ended
	ended time.Time
}

// run works until the final answer and returns the agent's final status. An error is a failure of the
// infrastructure. A host has one stack that waits here for each running rollout, so frames are small.
func (l *loop) run(ctx context.Context, instruction string) (*agent.Status, error) {
	add, calls := l.opening(instruction), 0
	for n := 1; n <= l.config.MaxSteps; n++ {
		began := time.Now()

		a, err := l.conversation.sendMessages(ctx, l.callID(n), add)
		if err != nil {
			return callFailed(ctx, err)
		}

		s := &step{number: n, answer: a, began: began}
		if done := l.readCalls(s); done != nil {
			return done, nil
		}
		// the sandbox keeps no more results
		if calls += len(s.calls); calls > rollout.MaxEpisodeSteps {
			return agentFailed("reached the maximum of %d tool calls", rollout.MaxEpisodeSteps), nil
		}

		if add, err = l.respond(ctx, s); err != nil {
			return nil, err
		}
	}

	return agentFailed("reached maximum steps (%d)", l.config.MaxSteps), nil
}

// readCalls parses the tool calls of a step's reply. It returns the agent's final status if there are none.
func (l *loop) readCalls(s *step) *agent.Status {
	if s.answer.Ended != "" {
		return agentFailed("no further model calls: %s", s.answer.Ended)
	}

	s.ended, s.calls = time.Now(), l.callsOf(s.number, s.answer)
	l.journal.addReply(s)

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

// agentFailed is the final status of an agent that failed.
func agentFailed(format string, args ...any) *agent.Status {
	return &agent.Status{Done: true, ExitCode: 1, Error: fmt.Sprintf(format, args...)}
}

// callFailed decides on a failed model call. A refused call and a prompt that does not fit the model's
// context end the agent. Other failures are errors; the route's status has the endpoint's failure.
func callFailed(ctx context.Context, err error) (*agent.Status, error) {
	if ctx.Err() != nil || !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Exhausted) {
		return nil, err
	}

	st := agentFailed("model call: %v", err)
	st.Overflowed = fault.Is(err, fault.Exhausted)

	return st, nil
}

// opening returns the messages before the first reply.
func (l *loop) opening(instruction string) []message {
	var open []message

	if system := l.system(); system != "" {
		open = append(open, message{Role: "system", Content: system})
	}

	for _, m := range l.config.InitialMessages {
		open = append(open, message{Role: m.Role, Content: m.Content})
	}

	return append(open, message{Role: "user", Content: instruction})
}

// system is the system prompt; "": none.
func (l *loop) system() string {
	if l.config.SystemPrompt == "" && l.config.Tools == rollout.ToolsHermes {
		return systemPrompt(l.tools.Definitions())
	}

	return l.config.SystemPrompt
}

// callID is the id of the model call of a step.
func (l *loop) callID(step int) string { return fmt.Sprintf("react-%d-%d", l.launch, step) }

// callsOf returns the tool calls of a reply, each with an id. If the content is empty, it parses the reasoning.
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

// act runs the calls of a step: native calls concurrently, others one after another.
func (l *loop) act(ctx context.Context, s *step) ([]tool.Result, error) {
	results, errs := make([]tool.Result, len(s.calls)), make([]error, len(s.calls))
	one := func(i int) {
		began := time.Now()
		if results[i], errs[i] = l.call(ctx, s, i); errs[i] == nil {
			l.journal.addResult(i, results[i], began)
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
	// toolTries bounds the tries of a tool call whose infrastructure fails. toolPause is the first pause
	// between them, which doubles.
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

		retryable := fault.Is(err, fault.Unavailable) || fault.Is(err, fault.ToolServerFailed)
		if !retryable || try == toolTries || sleep(ctx, pause) != nil {
			return tool.Result{}, fault.Wrap(fault.KindOf(err), err, "tool %s, call %d of step %d",
				c.Name, i+1, s.number)
		}
	}
}

// executionID is the id of the execution of a call. It does not contain the policy's own id, because
// policies repeat ids.
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

// sleep waits for d. It returns an error if the loop is stopped.
func sleep(ctx context.Context, d time.Duration) error {
	if clock.Sleep(ctx, d) != nil {
		return fault.Wrap(fault.Unavailable, context.Cause(ctx), "the agent's loop was stopped")
	}

	return nil
}
