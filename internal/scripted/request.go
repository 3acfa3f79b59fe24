package scripted

import (
	"encoding/json"
	"strings"
)

// request has the fields of a chat completion request that the server reads.
type request struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	Tools         json.RawMessage `json:"tools"`
	Stream        bool            `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Logprobs       bool     `json:"logprobs"`
	TopLogprobs    int      `json:"top_logprobs"`
	ReturnTokenIDs bool     `json:"return_token_ids"`
	Temperature    *float64 `json:"temperature"`

	// vLLM's: the prompt, in place of what the template makes of the messages
	KVTransfer struct {
		Prompt []int32 `json:"prompt_token_ids"`
	} `json:"kv_transfer_params"`

	// the server returns ids as names of tokens
	named bool
}

type message struct {
	Role             string         `json:"role"`
	Content          content        `json:"content"`
	Reasoning        string         `json:"reasoning"`
	ReasoningContent string         `json:"reasoning_content"`
	ToolCalls        []wireToolCall `json:"tool_calls"`
	ToolCallID       string         `json:"tool_call_id"`
}

type wireToolCall struct {
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// content is a message's text: a string, null, or a list of parts; only the text parts count.
type content string

func (c *content) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var parts []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(b, &parts); err != nil {
			return err
		}

		var all strings.Builder
		for _, p := range parts {
			all.WriteString(p.Text)
		}

		*c = content(all.String())

		return nil
	}

	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}

	*c = content(s)

	return nil
}

// instruction is the last user message that is not the result of a tool, and how many assistant messages follow it.
func (r *request) instruction() (text string, answered int) {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		switch r.Messages[i].Role {
		case "user":
			if strings.HasPrefix(string(r.Messages[i].Content), "<tool_response>") {
				continue
			}

			return string(r.Messages[i].Content), answered
		case "assistant":
			answered++
		}
	}

	return "", answered
}

// temperature is the temperature of the log probabilities.
func (r *request) temperature() float64 {
	if r.Temperature == nil || *r.Temperature <= 0 {
		return 1
	}

	return *r.Temperature
}

func (r *request) system() string {
	if len(r.Messages) > 0 && r.Messages[0].Role == "system" {
		return string(r.Messages[0].Content)
	}

	return ""
}

// promptIDs returns the prompt of the request: the ids that it names, else tools, then each message in the template,
// then the beginning of the reply.
func (r *request) promptIDs() []int32 {
	if len(r.KVTransfer.Prompt) > 0 {
		return r.KVTransfer.Prompt
	}

	ids := appendIDs(nil, string(r.Tools))
	for i := range r.Messages {
		m := &r.Messages[i]
		ids = appendIDs(append(ids, tokenID(turnStart)), m.Role)
		ids = append(ids, tokenID("\n"))
		ids = m.appendIDs(ids)
		ids = append(ids, tokenID(turnEnd), tokenID("\n"))
	}

	ids = appendIDs(append(ids, tokenID(turnStart)), "assistant")

	return append(ids, tokenID("\n"))
}

// appendIDs appends the message's own tokens, part by part as reply() cuts them.
func (m *message) appendIDs(ids []int32) []int32 {
	// agents may send the same text under both names
	thought := m.ReasoningContent
	if thought == "" {
		thought = m.Reasoning
	}

	if thought != "" {
		ids = append(ids, tokenID(thinkStart))
		ids = append(appendIDs(ids, thought), tokenID(thinkEnd))
	}

	ids = appendIDs(ids, string(m.Content))
	for _, c := range m.ToolCalls {
		ids = append(ids, tokenID(callStart))
		ids = appendIDs(ids, callHead(c.Function.Name))
		ids = appendIDs(ids, canonical(c.Function.Arguments))
		ids = append(appendIDs(ids, callTail), tokenID(callEnd))
	}

	return ids
}

const callTail = "}"

func callHead(name string) string {
	return `{"name": ` + string(appendString(nil, name)) + `, "arguments": `
}
