package tools

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/arguments"
	"github.com/rolloutd/rolloutd/internal/fault"
)

const (
	runRollout   = "run_rollout"
	startRollout = "start_rollout"
)

// Tool is one entry of the table, as it is published.
type Tool struct {
	Name, Description string
	InputSchema       *jsonschema.Schema
	Run               Handler

	// only reads; clients poll it
	Reads bool
}

// Handler answers one call with a JSON text.
type Handler func(ctx context.Context, c Call) (*Text, error)

// Call is one call of a tool.
type Call struct {
	Tool string
	Args map[string]any
	// Session is the session of the call; nil: none.
	Session Session
	// Limit bounds the answer, not the rollout; 0: no bound.
	Limit time.Duration
}

func (c Call) with(args map[string]any) Call {
	c.Args = args
	return c
}

// UnknownError means that there is no such tool.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("Unknown tool: '%s'", e.Name) }

// PanicError is a panic in a tool.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Value) }

// Table holds the tools. It is safe for concurrent use.
type Table struct {
	o       Options
	tools   []Tool
	results resultCache
}

// New makes the table.
func New(o Options) (*Table, error) {
	t := &Table{o: o}

	start, err := rolloutSchema(o.Agents)
	if err != nil {
		return nil, err
	}

	about, err := arguments.SchemaOf(idArgs{})
	if err != nil {
		return nil, err
	}

	trace, err := arguments.SchemaOf(traceArgs{Limit: maxTraceTurns})
	if err != nil {
		return nil, err
	}

	finalize, err := arguments.SchemaOf(finalizeArgs{WaitS: defaultWaitS})
	if err != nil {
		return nil, err
	}

	subscribe, err := arguments.SchemaOf(subscribeArgs{WaitS: defaultEventWaitS, Limit: defaultEvents})
	if err != nil {
		return nil, err
	}

	t.tools = []Tool{
		{
			runRollout,
			"Run a coding agent on a task in a sandbox and return the result with its captured model calls, as JSON.",
			start, t.run, false,
		},
		{startRollout, "Start a rollout and return its id at once.", start, t.start, false},
		{"get_state", "Return the state of a rollout.", about, t.getState, true},
		{"get_messages", "Return the agent's transcript of a rollout.", about, t.getMessages, true},
		{
			"subscribe_events",
			"Return a rollout's events after a cursor: phases, texts, thinking, tool calls, model calls, commands, outcome. Waits for the next ones where there are none yet.",
			subscribe,
			t.subscribeEvents,
			true,
		},
		{
			"get_trace",
			"Return turns of a finished rollout's trace, whole: requests, replies, token ids, log probabilities, loss masks.",
			trace,
			t.getTrace,
			true,
		},
		{"abort_rollout", "End a rollout early; what it produced is kept.", about, t.abortRollout, false},
		{
			"finalize_rollout", "Wait for a rollout to end and return its result, as run_rollout does.",
			finalize, t.finalizeRollout, false,
		},
	}

	return t, t.addGroups()
}

func (t *Table) addGroups() error {
	if t.o.Groups == nil {
		return nil
	}

	s, err := groupSchema(t.o.Agents)
	t.tools = append(t.tools, Tool{
		runGroup, "Run several rollouts of one task at the same time and return their rewards, as JSON.", s,
		t.runGroup, false,
	})

	return err
}

// WithTools returns a table of other tools over the same engine.
func (t *Table) WithTools(list []Tool) *Table { return &Table{o: t.o, tools: list} }

// Start returns the tool that starts a rollout and does not wait for it.
func (t *Table) Start() Tool {
	tool, _ := t.Find(startRollout)
	return tool
}

// Group returns the tool that runs a group; false: the engine has no groups.
func (t *Table) Group() (Tool, bool) { return t.Find(runGroup) }

// List returns the tools in the order in which they are published.
func (t *Table) List() []Tool { return t.tools }

// Find returns the tool of a name.
func (t *Table) Find(name string) (Tool, bool) {
	for _, tool := range t.tools {
		if tool.Name == name {
			return tool, true
		}
	}

	return Tool{}, false
}

// decode checks the call's arguments against the schema of its tool and stores them in the Go value, which
// already has the defaults.
func (t *Table) decode(c Call, into any) error {
	tool, _ := t.Find(c.Tool)
	return arguments.DecodeBy(tool.InputSchema, c.Tool, c.Args, into)
}

// Call runs a tool. Errors are *UnknownError, *PanicError, or carry a fault.Kind.
func (t *Table) Call(ctx context.Context, c Call) (text *Text, err error) {
	tool, ok := t.Find(c.Tool)
	if !ok {
		return nil, &UnknownError{c.Tool}
	}

	if c.Limit > 0 {
		var cancel context.CancelFunc

		ctx, cancel = context.WithTimeoutCause(ctx, c.Limit, errLimit)
		defer cancel()
	}

	defer func() {
		if v := recover(); v != nil {
			text, err = nil, &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()

	args := c.Args
	// so that only the tool references them while it waits
	c.Args = nil

	text, err = tool.Run(ctx, c.with(args))
	if err != nil && ctx.Err() != nil && fault.KindOf(err) == fault.Internal {
		err = interrupted(ctx, c, "")
	}

	return text, err
}
