package harbor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/conversation"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// turn is HarborEnv's HarborTurn: a whole model call of the agent itself.
type turn struct {
	Turn         int                     `json:"turn"` // from 0, of the agent's
	Role         string                  `json:"role"`
	FinishReason rollout.FinishReason    `json:"finish_reason"`
	PromptIDs    []int32                 `json:"prompt_token_ids"`
	IDs          []int32                 `json:"completion_token_ids"`
	Logprobs     []float64               `json:"per_token_logps"`
	Mask         rollout.Mask            `json:"loss_mask"`
	NodeID       string                  `json:"node_id"`
	NTools       int                     `json:"n_tools"`
	Discarded    bool                    `json:"discarded"`
	Trainable    bool                    `json:"trainable"`
	Sampling     json.RawMessage         `json:"sampling_params"`
	Requested    json.RawMessage         `json:"requested_sampling_params"`
	Text         string                  `json:"text"`
	ToolCalls    []conversation.ToolCall `json:"tool_calls"`
	Messages     []json.RawMessage       `json:"request_messages"`
	Tools        []json.RawMessage       `json:"request_tools"`
}

// dialogue is HarborEnv's HarborConversation: all messages of one.
type dialogue struct {
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

// Bounds of what the turns of one result have.
const (
	maxMessages = 8 << 20 // of the requests' messages, in bytes; the same again of the conversations'
)

// captured is what a result has of a trace.
type captured struct {
	turns         []turn
	conversations []dialogue
	calls         int // with a whole reply
	trained       int // tokens
	cut           int // turns without their messages
	truncated     int // turns that ended by their length

	byRoot map[string]int // of conversations
	size   int            // of the messages of turns
	tokens int
}

// capture reads the trace of a rollout; one without a trace has no turns.
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
	err = turns.Each(r, turns.Bounded, c.add)
	return c, err
}

// add takes a call that has a whole reply. Titles, summaries, subagents and foreign calls are conversations and no turns: they are not
// credited with the reward.
func (c *captured) add(t *rollout.Turn) error {
	if t.Broken != "" {
		return nil
	}
	c.calls++
	asked, said := conversation.RequestOf(t), conversation.ReplyOf(t)
	c.converse(t, asked, said)
	if t.Kind != rollout.KindAgent {
		return nil
	}
	if c.tokens += len(t.PromptTokenIDs) + len(t.CompletionTokenIDs); c.tokens > sequence.MaxTokens {
		return fault.New(fault.Exhausted, "the turns have more than %d tokens in all", sequence.MaxTokens)
	}
	out := turn{
		Turn: len(c.turns), Role: roleAgent, FinishReason: rollout.FinishReason(t.FinishReason), NodeID: t.NodeID,
		NTools: len(asked.Tools), Discarded: !t.Delivered, Sampling: orEmpty(t.SamplingParams), Requested: orEmpty(t.RequestedSamplingParams),
		Text: said.Text, ToolCalls: said.Calls, Messages: asked.Messages, Tools: asked.Tools,
	}
	out.tokens(t)
	if out.Trainable {
		c.trained += len(out.IDs)
	}
	if t.FinishReason == "length" {
		c.truncated++
	}
	c.turns = append(c.turns, out)
	c.size += asked.Size
	c.shed()
	return nil
}

// tokens puts in what the turn has token by token. Of a turn that is not trained on, a trainer still checks the lengths and the values: what
// would not pass is zero, or left out.
func (out *turn) tokens(t *rollout.Turn) {
	out.PromptIDs, out.IDs, out.Logprobs, out.Mask = t.PromptTokenIDs, t.CompletionTokenIDs, t.PerTokenLogps, t.LossMask
	out.Trainable = t.Train
	if t.Train {
		return
	}
	if len(out.PromptIDs) == 0 { // and so the completion is no continuation of anything
		out.PromptIDs, out.IDs, out.Logprobs, out.Mask = []int32{}, []int32{}, []float64{}, rollout.Mask{}
		return
	}
	out.Mask = rollout.NewMask(len(out.PromptIDs), len(out.IDs), false)
	if !sound(out.Logprobs, len(out.IDs)) {
		out.Logprobs = make([]float64, len(out.IDs))
	}
}

// sound says whether there are as many log probabilities as tokens, and all of them can be.
func sound(logprobs []float64, n int) bool {
	for _, v := range logprobs {
		if math.IsNaN(v) || v > 0 {
			return false
		}
	}
	return len(logprobs) == n
}

// shed takes the messages from the first turns that have them, until those of all are within the bound: trainers read the last turn's.
func (c *captured) shed() {
	for c.size > maxMessages && c.cut < len(c.turns)-1 {
		for _, m := range c.turns[c.cut].Messages {
			c.size -= len(m)
		}
		c.turns[c.cut].Messages = []json.RawMessage{}
		c.cut++
	}
}

// converse adds a call to its conversation. Titles and summaries have one each.
func (c *captured) converse(t *rollout.Turn, asked conversation.Request, said conversation.Reply) {
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
		c.conversations = append(c.conversations, dialogue{RootID: t.NodeID, Role: role, Messages: []json.RawMessage{}})
	}
	at := &c.conversations[i]
	at.NTurns++
	if len(asked.Messages) >= len(at.Messages) {
		at.Messages = append(asked.Messages[:len(asked.Messages):len(asked.Messages)], said.Message)
	}
}

// captured takes over what the trace has.
func (r *result) captured(c captured) {
	r.Turns, r.Conversations = append(r.Turns, c.turns...), append(r.Conversations, bounded(c.conversations)...)
	r.NTurns, r.NRoots, r.Trainable = c.calls, len(c.conversations), c.trained
	r.MultiTurn = r.NTurns > r.NRoots
	if c.cut > 0 {
		r.Findings = append(r.Findings, fmt.Sprintf("[WARN] messages_left_out: request_messages of the first %d turns; the trace has them", c.cut))
	}
	if c.truncated > 0 {
		r.Findings = append(r.Findings, fmt.Sprintf("[WARN] truncated_turn: %d turns ended by their length", c.truncated))
	}
}

// bounded are the conversations with messages as far as there is room, the agent's own first.
func bounded(all []dialogue) []dialogue {
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
