// Package google translates Google's Gemini API (generateContent) into chat completions.
package google

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

// request has the members of a request that have a counterpart.
type request struct {
	Contents []content `json:"contents"`
	System   *content  `json:"systemInstruction"`
	Tools    []tool    `json:"tools"`
	Config   config    `json:"generationConfig"`
	Choice   struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Cached string `json:"cachedContent"`
}

// Members returns the members of a request that are translated.
func Members() []string {
	return []string{
		"contents", "systemInstruction", "tools", "generationConfig", "toolConfig", "cachedContent",
		"system_instruction", "generation_config", "tool_config", "cached_content",
	}
}

type config struct {
	Temperature json.RawMessage `json:"temperature"`
	TopP        json.RawMessage `json:"topP"`
	TopK        json.RawMessage `json:"topK"`
	Seed        json.RawMessage `json:"seed"`
	Presence    json.RawMessage `json:"presencePenalty"`
	Frequency   json.RawMessage `json:"frequencyPenalty"`
	MaxOutput   json.RawMessage `json:"maxOutputTokens"`
	Stop        []string        `json:"stopSequences"`
	Candidates  int             `json:"candidateCount"`
	MIMEType    string          `json:"responseMimeType"`
	Schema      json.RawMessage `json:"responseSchema"`
	JSONSchema  json.RawMessage `json:"responseJsonSchema"`
}

type tool struct {
	Functions []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		JSONSchema  json.RawMessage `json:"parametersJsonSchema"`
	} `json:"functionDeclarations"`
}

// Translate returns a request as a chat completion. The path of a request names the model, and determines
// whether the reply is streamed.
func Translate(body []byte, model string, stream bool) (*chat.Call, error) {
	var in request
	if err := chat.Decode(camelCase(body), &in); err != nil {
		return nil, err
	}

	if in.Config.Candidates > 1 {
		return nil, fault.Field("generationConfig.candidateCount", "must be 1: one choice is captured for each call")
	}

	if in.Cached != "" {
		return nil, fault.Field("cachedContent",
			"is not supported, since no contents are stored: send the whole conversation as contents")
	}

	conversation, err := in.conversation()
	if err != nil {
		return nil, err
	}

	c := in.Config
	out := chat.Request{
		Model:            model,
		Stream:           stream,
		Messages:         conversation,
		MaxTokens:        c.MaxOutput,
		Temperature:      c.Temperature,
		TopP:             c.TopP,
		TopK:             c.TopK,
		Seed:             c.Seed,
		PresencePenalty:  c.Presence,
		FrequencyPenalty: c.Frequency,
		Stop:             c.Stop,
	}

	dropped, err := in.tools(&out)
	if err == nil {
		err = c.format(&out)
	}

	if err != nil {
		return nil, err
	}

	raw, err := out.Encode()
	if err != nil {
		return nil, err
	}

	return &chat.Call{
		Body:    raw,
		Dropped: dropped,
		Reply:   func(c chat.Completion) []byte { return reply(c, model) },
	}, nil
}

func (in *request) conversation() ([]chat.Message, error) {
	var t chat.Turns

	if in.System != nil {
		parts, err := in.System.toParts()
		if err != nil {
			return nil, fault.Field("systemInstruction", "%s", err)
		}

		t.Instruct(parts...)
	}

	calls := pending{}
	for i := range in.Contents {
		if err := in.Contents[i].add(&t, &calls); err != nil {
			return nil, fault.Field(fmt.Sprintf("contents[%d]", i), "%s", err)
		}
	}

	return t.Messages(), nil
}

// tools declares functions; other tools are run by Google's servers. If only some may be called, only those
// are declared.
func (in *request) tools(out *chat.Request) (dropped []string, err error) {
	allowed := in.Choice.Calling.Allowed
	for i, t := range in.Tools {
		if len(t.Functions) == 0 {
			dropped = append(dropped, fmt.Sprintf("tools[%d]", i))
		}

		for _, f := range t.Functions {
			parameters := f.JSONSchema
			if parameters == nil {
				if parameters, err = jsonSchema(f.Parameters); err != nil {
					return nil, fault.Field("tools", "parameters of %s: %s", f.Name, err)
				}
			}

			if len(allowed) == 0 || slices.Contains(allowed, f.Name) {
				out.Tools = append(out.Tools, chat.NewTool(f.Name, f.Description, parameters))
			}
		}
	}

	switch mode := in.Choice.Calling.Mode; mode {
	case "", "MODE_UNSPECIFIED":
	case "AUTO", "VALIDATED":
		out.ToolChoice = "auto"
	case "NONE":
		out.ToolChoice = "none"
	case "ANY":
		out.ToolChoice = "required"
	default:
		return nil, fault.Field("toolConfig.functionCallingConfig.mode", "must be AUTO, ANY, NONE or VALIDATED, got %q",
			mode)
	}

	return dropped, nil
}

func (c *config) format(out *chat.Request) error {
	schema := c.JSONSchema
	if schema == nil {
		var err error
		if schema, err = jsonSchema(c.Schema); err != nil {
			return fault.Field("generationConfig.responseSchema", "%s", err)
		}
	}

	switch {
	case schema != nil:
		out.ResponseFormat = chat.Schema("output", schema, nil)
	case c.MIMEType == "application/json":
		out.ResponseFormat = map[string]string{"type": "json_object"}
	}

	return nil
}
