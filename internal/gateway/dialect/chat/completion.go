package chat

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Completion is a whole chat completion.
type Completion struct {
	// as the engine gave it
	ID string

	// seconds since 1970; 0: absent
	Created   int64
	Text      string
	Reasoning string
	Refusal   string

	// each has an id
	Calls []ToolCall

	// finish_reason
	Finish string

	// the stop sequence that ended it, if the engine reports it
	Stop  string
	Usage Usage
}

// Usage counts tokens.
type Usage struct{ Prompt, Cached, Completion, Reasoning int64 }

// completion is the object.
type completion struct {
	ID      json.RawMessage `json:"id"`
	Created json.RawMessage `json:"created"`
	Choices []struct {
		Message struct {
			Content   string     `json:"content"`
			Reasoning string     `json:"reasoning_content"`
			Refusal   string     `json:"refusal"`
			Calls     []ToolCall `json:"tool_calls"`
		} `json:"message"`
		Finish json.RawMessage `json:"finish_reason"`
		Stop   json.RawMessage `json:"stop_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
}

// Read decodes an assembled completion.
func Read(object []byte) (Completion, error) {
	var in completion
	if err := json.Unmarshal(object, &in); err != nil {
		return Completion{}, err
	}

	c := Completion{ID: textOf(in.ID), Usage: usageOf(in.Usage)}
	// absent, or in another form
	c.Created, _ = strconv.ParseInt(string(in.Created), 10, 64)
	if len(in.Choices) == 0 {
		return c, nil
	}

	one := in.Choices[0]
	c.Text, c.Reasoning, c.Refusal, c.Calls = one.Message.Content, one.Message.Reasoning, one.Message.Refusal, one.Message.Calls

	c.Finish, c.Stop = textOf(one.Finish), textOf(one.Stop)
	for i := range c.Calls {
		// agents need an id for the result
		if c.Calls[i].ID == "" {
			c.Calls[i].ID = "call_" + c.Short() + "_" + strconv.Itoa(i)
		}
	}

	return c, nil
}

// Short returns the completion's id without the prefix of its API and without characters that other APIs'
// ids do not have.
func (c *Completion) Short() string {
	id := strings.TrimPrefix(c.ID, "chatcmpl-")

	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_' {
			return r
		}

		return -1
	}, id[:min(len(id), maxID)])
}

// maxID bounds the used part of an engine's id, in bytes.
const maxID = 64

// textOf returns a string; "": another value.
func textOf(raw []byte) string {
	var s string
	// absent, or a number
	_ = json.Unmarshal(raw, &s)

	return s
}

func usageOf(raw []byte) (u Usage) {
	o, err := rawjson.ParseObject(raw)
	if err != nil {
		// absent
		return u
	}

	u.Prompt, u.Completion = rawjson.NumberIn(o, "prompt_tokens"), rawjson.NumberIn(o, "completion_tokens")
	if in, err := rawjson.ParseObject(o.Or("prompt_tokens_details", "")); err == nil {
		u.Cached = min(rawjson.NumberIn(in, "cached_tokens"), u.Prompt)
	}

	if out, err := rawjson.ParseObject(o.Or("completion_tokens_details", "")); err == nil {
		u.Reasoning = rawjson.NumberIn(out, "reasoning_tokens")
	}

	return u
}

// Arguments returns those of a call as an object; false: the model wrote something else.
func Arguments(text string) (json.RawMessage, bool) {
	raw := []byte(text)
	if !json.Valid(raw) || !rawjson.Nestable(raw) || !rawjson.IsObject(raw) {
		return nil, false
	}

	return raw, true
}

// Encode encodes an object of another API. It contains only strings, numbers and valid JSON.
func Encode(object any) []byte {
	var b bytes.Buffer

	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	// such parts always encode
	_ = out.Encode(object)

	return bytes.TrimSpace(b.Bytes())
}
