package react

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// sampling has the sampling parameters of a request. The gateway adds those that the rollout sets.
type sampling struct {
	Model       string   `json:"model"`
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"`
}

// chat continues by chat completions: the engine tokenises the whole conversation for each reply.
type chat struct {
	model    agent.Model
	sampling sampling
	tools    []nativeTool
	messages []json.RawMessage

	// why calls are made by messages although ids were wanted; "": they were not
	fallback string
}

// chatTools are the fields of a request after its messages.
type chatTools struct {
	Tools    []nativeTool `json:"tools,omitempty"`
	Parallel *bool        `json:"parallel_tool_calls,omitempty"`
}

func (c *chat) sendMessages(ctx context.Context, id string, add []message) (*answer, error) {
	body, err := c.next(id, add)
	if err != nil {
		return nil, err
	}

	reply, err := c.model.CallByMessages(ctx, id, body, c.fallback)
	if err != nil {
		return nil, err
	}

	return c.readReply(reply)
}

// next appends the messages and returns the body of the call.
func (c *chat) next(id string, add []message) ([]byte, error) {
	if err := c.append(add...); err != nil {
		return nil, err
	}

	body, err := c.request()

	return body, fault.Wrap(fault.Internal, err, "model call %s", id)
}

// readReply reads a reply and appends it.
func (c *chat) readReply(reply gatewayapi.Reply) (*answer, error) {
	a, m, err := readReply(reply)
	if err != nil {
		return nil, err
	}

	return a, c.append(m)
}

// request is the body of the next call. The messages become slices of it, so that the conversation is in
// memory only once during the call, and is not encoded again for each call.
func (c *chat) request() ([]byte, error) {
	more := chatTools{Tools: c.tools}
	if len(c.tools) > 0 {
		parallel := true
		more.Parallel = &parallel
	}

	head, err := marshal(c.sampling)
	if err != nil {
		return nil, err
	}

	tail, err := marshal(more)
	if err != nil {
		return nil, err
	}

	const open, end = `,"messages":[`, `],`

	size := len(head) + len(open) + len(c.messages) + len(end) + len(tail)
	for _, m := range c.messages {
		size += len(m)
	}

	body := append(make([]byte, 0, size), head[:len(head)-1]...)
	body = append(body, open...)

	for i, m := range c.messages {
		if i > 0 {
			body = append(body, ',')
		}

		from := len(body)
		body = append(body, m...)
		c.messages[i] = json.RawMessage(body[from:len(body):len(body)])
	}

	body = append(body, end...)
	if len(c.tools) == 0 {
		// no field follows
		body = body[:len(body)-1]
	}

	return append(body, tail[1:]...), nil
}

func (c *chat) append(messages ...message) error {
	for _, m := range messages {
		raw, err := marshal(m)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "encode a message")
		}

		c.messages = append(c.messages, raw)
	}

	return nil
}

// wireCall is a native tool call.
type wireCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// readReply reads a chat completion or a text completion. It also returns the message that represents it in
// later prompts.
func readReply(r gatewayapi.Reply) (*answer, message, error) {
	var in struct {
		Choices []struct {
			Text    string `json:"text"`
			Message struct {
				Content          string          `json:"content"`
				ReasoningContent string          `json:"reasoning_content"`
				Reasoning        string          `json:"reasoning"`
				ToolCalls        json.RawMessage `json:"tool_calls"`
			} `json:"message"`
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Usage usage `json:"usage"`
	}
	if err := json.Unmarshal(r.Body, &in); err != nil {
		return nil, message{}, fault.Wrap(fault.Invalid, err, "the model's reply is not a completion")
	}

	if len(in.Choices) == 0 {
		return nil, message{}, fault.New(fault.Invalid, "the model's reply has no choice")
	}

	first := in.Choices[0]
	a := &answer{
		Text:      cmp.Or(first.Message.Content, first.Text),
		Reasoning: cmp.Or(first.Message.ReasoningContent, first.Message.Reasoning),
		Finish:    first.FinishReason,
		Ended:     r.Ended,
		Usage:     in.Usage,
	}
	reply := message{Role: "assistant", Content: a.Text, Reasoning: a.Reasoning}

	var calls []wireCall
	if len(first.Message.ToolCalls) > 0 {
		if err := json.Unmarshal(first.Message.ToolCalls, &calls); err != nil {
			return nil, message{}, fault.Wrap(fault.Invalid, err, "the model's tool_calls are not valid")
		}
	}

	if len(calls) > 0 {
		a.Calls, reply.ToolCalls = nativeCalls(calls), first.Message.ToolCalls
	}

	return a, reply, nil
}

func nativeCalls(calls []wireCall) []call {
	list := make([]call, 0, len(calls))
	for i, w := range calls {
		c := call{ID: w.ID, Name: w.Function.Name}

		arguments, err := object([]byte(cmp.Or(w.Function.Arguments, "{}")))
		switch {
		case i >= maxCalls:
			c = call{ID: w.ID, Malformed: fmt.Sprintf("more than %d tool calls in one message", maxCalls)}
		case w.Function.Name == "":
			c.Malformed = "the call has no function name"
		case err != nil:
			c = call{ID: w.ID, Malformed: "the arguments are " + err.Error()}
		default:
			c.Arguments = arguments
		}

		list = append(list, c)
	}

	return list
}
