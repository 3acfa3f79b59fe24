package probe

import (
	"bytes"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

type candidate struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
}

// alternative is a token with its alternatives.
type alternative struct {
	Top []candidate `json:"top_logprobs"`
}

// completion is the part of an assembled reply that the probe reads, for every API.
type completion struct {
	Choices []struct {
		Message struct {
			ToolCalls []struct{} `json:"tool_calls"`
		} `json:"message"`
		Logprobs struct {
			// in a chat completion
			Content []alternative `json:"content"`

			// in a completion
			Top []map[string]float64 `json:"top_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`

	// in a response
	Output []struct {
		Type    string `json:"type"`
		Content []struct {
			Logprobs []alternative `json:"logprobs"`
		} `json:"content"`
	} `json:"output"`

	// in a message
	Content []struct {
		Type string `json:"type"`
	} `json:"content"`
}

// maxElements bounds the values of a reply to a probe.
const maxElements = 1 << 16

// decode reads a reply; the zero value: it is not one.
func decode(api reply.API, raw []byte) (c completion) {
	whole, err := render.Assemble(api, raw)
	if err != nil {
		return c
	}

	in := jsoninput.NewReader(bytes.NewReader(whole.JSON()), jsoninput.Limits{Elements: maxElements, Depth: 32})
	if json.NewDecoder(in).Decode(&c) != nil {
		return completion{}
	}

	return c
}

// callsTool reports whether a reply has a tool call.
func (c completion) callsTool() bool {
	if len(c.Choices) > 0 && len(c.Choices[0].Message.ToolCalls) > 0 {
		return true
	}

	for _, item := range c.Output {
		if item.Type == "function_call" {
			return true
		}
	}

	for _, block := range c.Content {
		if block.Type == "tool_use" {
			return true
		}
	}

	return false
}

// first returns the candidates of the first token of a reply.
func (c completion) first() []candidate {
	for _, choice := range c.Choices {
		if len(choice.Logprobs.Content) > 0 {
			return choice.Logprobs.Content[0].Top
		}

		if len(choice.Logprobs.Top) > 0 {
			return candidatesOf(choice.Logprobs.Top[0])
		}
	}

	for _, item := range c.Output {
		for _, part := range item.Content {
			if len(part.Logprobs) > 0 {
				return part.Logprobs[0].Top
			}
		}
	}

	return nil
}

func candidatesOf(logprobs map[string]float64) (all []candidate) {
	for token, logprob := range logprobs {
		all = append(all, candidate{token, logprob})
	}

	return all
}
