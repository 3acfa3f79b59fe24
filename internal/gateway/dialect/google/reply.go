package google

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

type answer struct {
	Candidates [1]candidate `json:"candidates"`
	Usage      usage        `json:"usageMetadata"`
	Model      string       `json:"modelVersion"`
	ID         string       `json:"responseId"`
}

type candidate struct {
	Content struct {
		Parts []answerPart `json:"parts"`
		Role  string       `json:"role"`
	} `json:"content"`
	Finish string `json:"finishReason"`
	Index  int    `json:"index"`
}

type answerPart struct {
	Text    *string `json:"text,omitempty"`
	Thought bool    `json:"thought,omitempty"`
	Call    *call   `json:"functionCall,omitempty"`
}

type usage struct {
	Prompt   int64 `json:"promptTokenCount"`
	Cached   int64 `json:"cachedContentTokenCount,omitempty"`
	Answer   int64 `json:"candidatesTokenCount"`
	Thoughts int64 `json:"thoughtsTokenCount,omitempty"`
	Total    int64 `json:"totalTokenCount"`
}

// reply returns a completion as a GenerateContentResponse of the model that the agent named.
func reply(c chat.Completion, model string) []byte {
	a := answer{Model: model, ID: c.Short(), Usage: usage{
		Prompt:   c.Usage.Prompt,
		Cached:   c.Usage.Cached,
		Answer:   c.Usage.Completion - c.Usage.Reasoning,
		Thoughts: c.Usage.Reasoning,
		Total:    c.Usage.Prompt + c.Usage.Completion,
	}}
	one := &a.Candidates[0]
	one.Content.Role, one.Content.Parts = "model", []answerPart{}
	say := func(text string, thought bool) {
		if text != "" {
			one.Content.Parts = append(one.Content.Parts, answerPart{Text: &text, Thought: thought})
		}
	}
	say(c.Reasoning, true)
	say(c.Text+c.Refusal, false)

	for _, made := range c.Calls {
		one.Content.Parts = append(one.Content.Parts, answerPart{Call: &call{
			ID:   made.ID,
			Name: made.Function.Name,
			Args: argsOf(made.Function.Arguments),
		}})
	}
	// clients take an answer without parts for a broken one
	if len(one.Content.Parts) == 0 {
		one.Content.Parts = []answerPart{{Text: new(string)}}
	}

	one.Finish = finish(c.Finish)

	return chat.Encode(a)
}

func argsOf(arguments string) json.RawMessage {
	if arguments == "" {
		return json.RawMessage("{}")
	}

	if args, ok := chat.Arguments(arguments); ok {
		return args
	}

	return chat.Encode(map[string]string{unread: arguments})
}

func finish(reason string) string {
	switch reason {
	case "length":
		return "MAX_TOKENS"
	case "content_filter":
		return "SAFETY"
	default:
		return "STOP"
	}
}
