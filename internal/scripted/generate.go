package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// generateRequest has the fields of a request of Google's API that the server reads. The path has the model
// and the method.
type generateRequest struct {
	System   *generateContent  `json:"systemInstruction"`
	Contents []generateContent `json:"contents"`
	Tools    []struct {
		Functions []json.RawMessage `json:"functionDeclarations"`
	} `json:"tools"`
}

type generateContent struct {
	Role  string         `json:"role"`
	Parts []generatePart `json:"parts"`
}

type generatePart struct {
	Text    string `json:"text"`
	Thought bool   `json:"thought"`
	Call    *struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string          `json:"id"`
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

// generateContent serves generateContent and streamGenerateContent, the stream as server-sent events.
func (s *Server) generateContent(w http.ResponseWriter, r *http.Request) {
	model, method, _ := strings.Cut(r.PathValue("call"), ":")

	stream := method == "streamGenerateContent"
	if !stream && method != "generateContent" || stream && r.URL.Query().Get("alt") != "sse" {
		writeError(
			w,
			http.StatusNotFound,
			fmt.Sprintf("the method must be generateContent, or streamGenerateContent?alt=sse, got %q", method),
		)

		return
	}

	d := generateAPI(model, stream)
	s.serve(d.read, d.answer)(w, r)
}

func generateAPI(model string, stream bool) *dialect {
	return &dialect{
		read:   func(body []byte) (request, error) { return readGenerate(body, model, stream) },
		whole:  func(c *call, _ []token) any { return c.generated(c.generatedParts(), true) },
		events: func(c *call, _ []token) []event { return c.generateEvents() },
	}
}

func readGenerate(body []byte, model string, stream bool) (request, error) {
	var in generateRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return request{}, err
	}

	r := request{Model: model, Stream: stream}

	var functions []json.RawMessage
	for _, t := range in.Tools {
		functions = append(functions, t.Functions...)
	}

	if functions != nil {
		// decoded JSON always encodes
		r.Tools, _ = json.Marshal(functions)
	}

	if in.System != nil {
		r.addContent("system", in.System.Parts)
	}

	for _, c := range in.Contents {
		role := c.Role
		if role == "model" {
			role = "assistant"
		}

		r.addContent(role, c.Parts)
	}

	return r, nil
}

// addContent appends a content as a message, and each function result in it as a message of its own. A
// content with results is not an instruction, even if it has text, too.
func (r *request) addContent(role string, parts []generatePart) {
	m, results := message{Role: role}, false

	for _, p := range parts {
		switch {
		case p.Response != nil:
			r.Messages = append(r.Messages, message{
				Role:       "tool",
				Content:    content(p.Response.Response),
				ToolCallID: p.Response.ID,
			})
			results = true
		case p.Call != nil:
			m.ToolCalls = append(m.ToolCalls, newWireToolCall(p.Call.Name, string(p.Call.Args)))
		case p.Thought:
			m.ReasoningContent += p.Text
		default:
			m.Content += content(p.Text)
		}
	}

	if results {
		m.Role = "tool"
	}

	if !results || m.Content != "" {
		r.Messages = append(r.Messages, m)
	}
}

// generatedParts returns the parts of the reply, at least one: clients treat an answer without parts as broken.
func (c *call) generatedParts() []map[string]any {
	rep, parts := c.scene.reply, []map[string]any{}
	if rep.reasoning != "" {
		parts = append(parts, map[string]any{"text": rep.reasoning, "thought": true})
	}

	if rep.text != "" || len(rep.calls) == 0 {
		parts = append(parts, map[string]any{"text": rep.text})
	}

	for i, k := range rep.calls {
		args := json.RawMessage(k.arguments)
		if !json.Valid(args) {
			args = json.RawMessage("{}")
		}

		parts = append(parts, map[string]any{"functionCall": map[string]any{
			"id":   c.callID(i),
			"name": k.name,
			"args": args,
		}})
	}

	return parts
}

// generated is a GenerateContentResponse of the whole reply, or one event of a stream. The last event has
// the finish reason and the counts.
func (c *call) generated(parts []map[string]any, last bool) map[string]any {
	candidate := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}

	body := map[string]any{"candidates": []any{candidate}, "modelVersion": c.req.Model, "responseId": c.id}
	if last {
		in, out := len(c.prompt), c.scene.reply.tokens
		candidate["finishReason"] = generateFinish(c.scene.reply.finish)
		body["usageMetadata"] = map[string]int{
			"promptTokenCount":     in,
			"candidatesTokenCount": out,
			"totalTokenCount":      in + out,
		}
	}

	return body
}

func generateFinish(finish string) string {
	switch finish {
	case "length":
		return "MAX_TOKENS"
	case "content_filter":
		return "SAFETY"
	default:
		return "STOP"
	}
}

// generateEvents is the reply as a stream: each part whole in one piece.
func (c *call) generateEvents() []event {
	parts := c.generatedParts()

	events := make([]event, len(parts))
	for i := range parts {
		events[i].data = c.generated(parts[i:i+1], i == len(parts)-1)
	}

	return events
}
