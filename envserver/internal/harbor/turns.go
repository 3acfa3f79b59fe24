package harbor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// turn is HarborEnv's HarborTurn: a complete model call of the agent.
type turn struct {
	// from 0, of the agent's
	Turn         int                  `json:"turn"`
	Role         string               `json:"role"`
	FinishReason rollout.FinishReason `json:"finish_reason"`
	PromptIDs    []int32              `json:"prompt_token_ids"`
	IDs          []int32              `json:"completion_token_ids"`
	Logprobs     []float64            `json:"per_token_logps"`
	Mask         rollout.Mask         `json:"loss_mask"`
	NodeID       string               `json:"node_id"`
	NTools       int                  `json:"n_tools"`
	Discarded    bool                 `json:"discarded"`
	Trainable    bool                 `json:"trainable"`
	Sampling     json.RawMessage      `json:"sampling_params"`
	Requested    json.RawMessage      `json:"requested_sampling_params"`
	Text         string               `json:"text"`
	ToolCalls    []formats.ToolCall   `json:"tool_calls"`
	Messages     []json.RawMessage    `json:"request_messages"`
	Tools        []json.RawMessage    `json:"request_tools"`
}

// dialog is HarborEnv's HarborConversation.
type dialog struct {
	RootID   string            `json:"root_id"`
	Role     string            `json:"role"`
	NTurns   int               `json:"n_turns"`
	Messages []json.RawMessage `json:"messages"`
}

// Roles of conversations.
const (
	roleAgent     = "agent"
	roleAuxiliary = "auxiliary"
)

// Bounds of the turns of one result.
const (
	// bound of the requests' messages, and again of those of conversations, in bytes
	maxMessages = 8 << 20
)

// captured is the part of a result that comes from the trace.
type captured struct {
	turns         []turn
	conversations []dialog

	// number of calls with a complete reply
	calls int

	// tokens
	trained int

	// turns whose messages were dropped
	cut int

	// turns with finish reason length
	truncated int

	// indexes of conversations
	byRoot map[string]int

	// size of the messages of turns
	size   int
	tokens int
}

// capture reads the trace of a rollout. Without a trace there are no turns.
func (e *Env) capture(ctx context.Context, id string) (captured, error) {
	c := captured{byRoot: map[string]int{}}

	r, err := e.o.Rollouts.Open(ctx, id, "trace")
	if fault.Is(err, fault.NotFound) {
		return c, nil
	}

	if err != nil {
		return c, err
	}

	defer r.Close()

	err = turns.Each(r, turns.Bounded, c.addTurn)

	return c, err
}

// addTurn adds a call with a complete reply. Titles, summaries, subagents and foreign calls become
// conversations and not turns: the reward does not apply to them.
func (c *captured) addTurn(t *rollout.Turn) error {
	if t.Broken != "" {
		return nil
	}

	c.calls++
	request, response := formats.RequestOf(t), formats.ReplyOf(t)
	c.addToConversation(t, request, response)

	if t.Kind != rollout.KindAgent {
		return nil
	}

	if c.tokens += len(t.PromptTokenIDs) + len(t.CompletionTokenIDs); c.tokens > sequence.MaxTokens {
		return fault.New(fault.Exhausted, "the turns have more than %d tokens in all", sequence.MaxTokens)
	}

	out := turn{
		Turn:         len(c.turns),
		Role:         roleAgent,
		FinishReason: rollout.FinishReason(t.FinishReason),
		NodeID:       t.NodeID,
		NTools:       len(request.Tools),
		Discarded:    !t.Delivered,
		Sampling:     orEmpty(t.SamplingParams),
		Requested:    orEmpty(t.RequestedSamplingParams),
		Text:         response.Text,
		ToolCalls:    response.Calls,
		Messages:     request.Messages,
		Tools:        request.Tools,
	}
	out.tokens(t)

	if out.Trainable {
		c.trained += len(out.IDs)
	}

	if t.FinishReason == "length" {
		c.truncated++
	}

	c.turns = append(c.turns, out)
	c.size += request.Size
	c.dropMessages()

	return nil
}

// tokens sets the lists with one element per token. Trainers check their lengths and values also for turns
// that are not trained on; values that would fail the check are replaced by zeros or left out.
func (out *turn) tokens(t *rollout.Turn) {
	out.PromptIDs, out.IDs, out.Logprobs, out.Mask = t.PromptTokenIDs, t.CompletionTokenIDs, t.PerTokenLogps, t.LossMask

	out.Trainable = t.Train
	if t.Train {
		return
	}
	// without a prompt the completion ids have no context
	if len(out.PromptIDs) == 0 {
		out.PromptIDs, out.IDs, out.Logprobs, out.Mask = []int32{}, []int32{}, []float64{}, rollout.Mask{}
		return
	}

	out.Mask = rollout.NewMask(len(out.PromptIDs), len(out.IDs), false)
	if !validLogprobs(out.Logprobs, len(out.IDs)) {
		out.Logprobs = make([]float64, len(out.IDs))
	}
}

// validLogprobs reports whether there is one log probability per token and none is positive or NaN.
func validLogprobs(logprobs []float64, n int) bool {
	for _, v := range logprobs {
		if math.IsNaN(v) || v > 0 {
			return false
		}
	}

	return len(logprobs) == n
}

// dropMessages drops the messages of the earliest turns until the rest is within the bound: trainers read
// those of the last turn.
func (c *captured) dropMessages() {
	for c.size > maxMessages && c.cut < len(c.turns)-1 {
		for _, m := range c.turns[c.cut].Messages {
			c.size -= len(m)
		}

		c.turns[c.cut].Messages = []json.RawMessage{}
		c.cut++
	}
}

// addToConversation adds a call to its conversation. Each title and summary is a conversation of its own.
func (c *captured) addToConversation(t *rollout.Turn, request formats.Request, response formats.Reply) {
	root := cmp.Or(string(t.Branch), string(t.Kind)) + " " + t.Lineage
	if t.Branch == rollout.BranchAuxiliary || t.Branch == rollout.BranchForeign {
		root = t.NodeID
	}

	i, known := c.byRoot[root]
	if !known {
		i = len(c.conversations)
		c.byRoot[root] = i

		role := roleAuxiliary
		if t.Kind == rollout.KindAgent {
			role = roleAgent
		}

		c.conversations = append(c.conversations, dialog{RootID: t.NodeID, Role: role, Messages: []json.RawMessage{}})
	}

	at := &c.conversations[i]

	at.NTurns++
	if len(request.Messages) >= len(at.Messages) {
		at.Messages = append(request.Messages[:len(request.Messages):len(request.Messages)], response.Message)
	}
}

// captured sets the members that come from the trace.
func (r *result) captured(c captured) {
	r.Turns, r.Conversations = append(r.Turns, c.turns...), append(r.Conversations, boundMessages(c.conversations)...)
	r.NTurns, r.NRoots, r.Trainable = c.calls, len(c.conversations), c.trained

	r.MultiTurn = r.NTurns > r.NRoots
	if c.cut > 0 {
		r.Findings = append(
			r.Findings,
			fmt.Sprintf("[WARN] messages_left_out: request_messages of the first %d turns; the trace has them", c.cut),
		)
	}

	if c.truncated > 0 {
		r.Findings = append(
			r.Findings,
			fmt.Sprintf("[WARN] truncated_turn: %d turns ended at the token limit", c.truncated),
		)
	}
}

// boundMessages drops the messages of conversations beyond the bound. The agent's own conversations have priority.
func boundMessages(all []dialog) []dialog {
	room := maxMessages

	for _, role := range []string{roleAgent, roleAuxiliary} {
		for i := range all {
			if all[i].Role != role {
				continue
			}

			for _, m := range all[i].Messages {
				room -= len(m)
			}

			if room < 0 {
				all[i].Messages = []json.RawMessage{}
			}
		}
	}

	return all
}

func orEmpty(object json.RawMessage) json.RawMessage {
	if len(object) == 0 || string(object) == "null" {
		return json.RawMessage("{}")
	}

	return object
}
