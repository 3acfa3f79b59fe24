package formats

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// ATIF is a rollout in the Agent Trajectory Interchange Format, of the agent's own conversation.
type ATIF struct {
	Schema    string `json:"schema_version" const:"ATIF-v1.7"`
	SessionID string `json:"session_id"`
	Agent     agent  `json:"agent"`
	Steps     []step `json:"steps" nullable:"false"`
	Final     final  `json:"final_metrics"`
}

// version of the format.
const version = "ATIF-v1.7"

type agent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Model   string `json:"model_name,omitempty"`
}

type final struct {
	Prompt     int64 `json:"total_prompt_tokens"`
	Completion int64 `json:"total_completion_tokens"`
	Steps      int   `json:"total_steps"`
}

type step struct {
	ID          int          `json:"step_id"`
	Timestamp   string       `json:"timestamp,omitempty"`
	Source      string       `json:"source"`
	Message     string       `json:"message"`
	Reasoning   string       `json:"reasoning_content,omitempty"`
	ToolCalls   []call       `json:"tool_calls,omitempty"`
	Observation *observation `json:"observation,omitempty"`
	Metrics     *metrics     `json:"metrics,omitempty"`
	Calls       int          `json:"llm_call_count,omitempty"`
}

type call struct {
	ID        string         `json:"tool_call_id"`
	Name      string         `json:"function_name"`
	Arguments map[string]any `json:"arguments" nullable:"false"`
}

type observation struct {
	Results []observed `json:"results" nullable:"false"`
}

type observed struct {
	CallID  string `json:"source_call_id,omitempty"`
	Content string `json:"content"`
}

type metrics struct {
	Prompt        int64     `json:"prompt_tokens"`
	Completion    int64     `json:"completion_tokens"`
	Cached        int64     `json:"cached_tokens,omitempty"`
	Cost          float64   `json:"cost_usd,omitempty"`
	PromptIDs     []int32   `json:"prompt_token_ids,omitempty"`
	CompletionIDs []int32   `json:"completion_token_ids,omitempty"`
	Logprobs      []float64 `json:"logprobs,omitempty"`
}

// ReadATIF returns the trajectory of a trace. A trace without a complete call of the agent is a fault.NotFound.
func ReadATIF(trace io.Reader, rolloutID string) (ATIF, error) {
	t := ATIF{Schema: version, SessionID: rolloutID, Agent: agent{Name: "agent", Version: "unknown"}, Steps: []step{}}
	// messages of the conversation that are steps already; ids in all
	seen, tokens := 0, 0

	var before []json.RawMessage

	err := turns.Each(trace, turns.Bounded, func(turn *rollout.Turn) error {
		if turn.Broken != "" || !turn.Delivered || turn.Kind != rollout.KindAgent {
			return nil
		}

		if tokens += len(turn.PromptTokenIDs) + len(turn.CompletionTokenIDs); tokens > sequence.MaxTokens {
			return fault.New(fault.Exhausted,
				"the turns have more than %d tokens in all: read the trace as jsonl, which is streamed",
				sequence.MaxTokens)
		}

		asked := RequestOf(turn)
		switch {
		case slices.EqualFunc(asked.Messages, before, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }):
			// the call was made again
			seen = len(before)
		case seen > len(asked.Messages): // the conversation was summarized
			seen = 0
		}

		for _, m := range asked.Messages[seen:] {
			t.message(m)
		}

		seen, before = len(asked.Messages)+1, asked.Messages

		t.turn(turn)

		return nil
	})
	if err == nil && len(t.Steps) == 0 {
		err = fault.New(fault.NotFound, "rollout %s has no complete model call", rolloutID)
	}

	t.Final.Steps = len(t.Steps)

	return t, err
}

// message adds a message of a request: a tool result to the step that called the tool, another message as a step.
func (t *ATIF) message(raw json.RawMessage) {
	var m struct {
		Role   string
		Type   string
		CallID string `json:"tool_call_id"`

		// the id in a response
		Item   string `json:"call_id"`
		Output json.RawMessage
	}
	if json.Unmarshal(raw, &m) != nil {
		return
	}

	content := ContentText(rawjson.MemberOf(raw, "content"))

	switch {
	case m.Role == "tool":
		t.observe(m.CallID, content)
	case m.Type == "function_call_output":
		t.observe(m.Item, ContentText(m.Output))
	case m.Role == "system" || m.Role == "developer":
		t.Steps = append(t.Steps, step{ID: len(t.Steps) + 1, Source: "system", Message: content})
	case m.Role == "user":
		t.Steps = append(t.Steps, step{ID: len(t.Steps) + 1, Source: "user", Message: content})
	}
}

func (t *ATIF) observe(callID, content string) {
	if len(t.Steps) == 0 {
		return
	}

	last := &t.Steps[len(t.Steps)-1]
	if last.Source != "agent" {
		return
	}

	if !slices.ContainsFunc(last.ToolCalls, func(c call) bool { return c.ID == callID }) {
		// readers refuse the id of another step's call
		callID = ""
	}

	if last.Observation == nil {
		last.Observation = &observation{}
	}

	last.Observation.Results = append(last.Observation.Results, observed{callID, content})
}

// turn adds a reply.
func (t *ATIF) turn(turn *rollout.Turn) {
	reply := ReplyOf(turn)
	if t.Agent.Model == "" {
		t.Agent.Model = ContentText(rawjson.MemberOf(turn.Request, "model"))
	}

	s := step{
		ID: len(t.Steps) + 1, Source: "agent", Message: reply.Text, Calls: 1,
		Timestamp: time.UnixMicro(int64(turn.Timestamp * 1e6)).UTC().Format(time.RFC3339Nano),
		Reasoning: ContentText(rawjson.MemberOf(reply.Message, "reasoning_content")),
		Metrics: &metrics{
			Prompt:        turn.Usage.PromptTokens,
			Completion:    turn.Usage.CompletionTokens,
			Cached:        turn.Usage.CachedPromptTokens,
			Cost:          turn.Usage.CostUSD,
			PromptIDs:     turn.PromptTokenIDs,
			CompletionIDs: turn.CompletionTokenIDs,
			Logprobs:      turn.PerTokenLogps,
		},
	}
	for _, c := range reply.Calls {
		s.ToolCalls = append(s.ToolCalls, call{ID: c.ID, Name: c.Name, Arguments: argumentsOf(c.Arguments)})
	}

	t.Final.Prompt += turn.Usage.PromptTokens
	t.Final.Completion += turn.Usage.CompletionTokens
	t.Steps = append(t.Steps, s)
}

// argumentsOf returns the arguments of a call as an object, as the format requires. Other values become the
// member "arguments" of an object.
func argumentsOf(raw json.RawMessage) map[string]any {
	text := string(raw)
	// an object stays as it is
	_ = json.Unmarshal(raw, &text)

	var object map[string]any
	if json.Unmarshal([]byte(text), &object) == nil && object != nil {
		return object
	}

	return map[string]any{"arguments": text}
}
