package scripted_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

// postTo calls an API other than chat completions and returns the body.
func (s *server) postTo(t *testing.T, api reply.API, body object) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/"+string(api), encode(t, body))
	require.NoError(t, err)
	resp, err := s.Client().Do(req)
	require.NoError(t, err)

	defer func() { _ = resp.Body.Close() }()

	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(raw))

	return raw
}

// bothWays requests a stream and an object, checks that they have the same content, and returns the object.
func (s *server) bothWays(t *testing.T, api reply.API, body object) object {
	t.Helper()

	body["stream"] = true
	streamed, err := render.Assemble(api, s.postTo(t, api, body))
	require.NoError(t, err)

	body["stream"] = false
	raw := s.postTo(t, api, body)

	var whole, assembled object
	require.NoError(t, json.Unmarshal(raw, &whole))
	require.NoError(t, json.Unmarshal(streamed.JSON(), &assembled))
	delete(whole, "created_at")
	delete(assembled, "created_at")
	require.Equal(t, whole, assembled)

	return whole
}

const twoTurns = `
turns:
  - {reasoning: hm, text: I look., tool_calls: [{name: bash, arguments: {command: ls}}, {name: bash, arguments: {command: pwd}}]}
  - {text: Done.}
`

func TestResponsesAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, twoTurns)
	input := []any{
		object{
			"type":    "message",
			"role":    "developer",
			"content": []any{object{"type": "input_text", "text": "be brief"}},
		},
		object{"type": "message", "role": "user", "content": []any{object{"type": "input_text", "text": "go"}}},
	}
	ask := func() object {
		return s.bothWays(t, reply.Responses, object{
			"model":                    "m",
			"instructions":             "system",
			"input":                    input,
			"include":                  []string{"message.output_text.logprobs"},
			"top_logprobs":             1,
			"enable_response_messages": true,
		})
	}
	first := ask()
	require.Equal(t, "completed", first["status"])
	output := first["output"].([]any)
	require.Len(t, output, 4)

	input = append(input, output...)
	for _, item := range output[2:] {
		require.Equal(t, "bash", item.(object)["name"])
		input = append(input, object{
			"type":    "function_call_output",
			"call_id": item.(object)["call_id"],
			"output":  "ok",
		})
	}

	second := ask()
	require.Equal(t, "Done.", second["output"].([]any)[0].(object)["content"].([]any)[0].(object)["text"])

	sent := s.log.sent(t)
	require.Len(t, sent, 4)
	before := append(sent[0].PromptTokenIDs, sent[0].CompletionTokenIDs...)
	require.Equal(t, before, sent[2].PromptTokenIDs[:len(before)], "the second prompt continues the first turn")

	var read reply.Reply

	read.API = reply.Responses
	raw, err := json.Marshal(first)
	require.NoError(t, err)
	require.NoError(t, read.Event(raw))
	require.Equal(t, sent[0].PromptTokenIDs, read.PromptTokenIDs)
	require.Equal(t, sent[0].CompletionTokenIDs, read.TokenIDs)
	require.Equal(t, sent[0].Logprobs, read.Logprobs)
}

func TestMessagesAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, twoTurns)
	messages := []any{user("go")}
	ask := func() object {
		return s.bothWays(t, reply.Messages, object{
			"model":      "m",
			"max_tokens": 100,
			"system":     []any{object{"type": "text", "text": "be brief"}},
			"messages":   messages,
		})
	}
	first := ask()
	require.Equal(t, "tool_use", first["stop_reason"])
	blocks := first["content"].([]any)
	require.Len(t, blocks, 4)
	require.Equal(t, object{"command": "ls"}, blocks[2].(object)["input"])
	messages = append(messages, object{"role": "assistant", "content": blocks}, object{"role": "user", "content": []any{
		object{"type": "tool_result", "tool_use_id": blocks[2].(object)["id"], "content": "ok"},
		object{
			"type":        "tool_result",
			"tool_use_id": blocks[3].(object)["id"],
			"content":     []any{object{"type": "text", "text": "ok"}},
		},
		object{"type": "text", "text": "a reminder is no new instruction"},
	}})
	second := ask()
	require.Equal(t, "end_turn", second["stop_reason"])
	require.Equal(t, "Done.", second["content"].([]any)[0].(object)["text"])
	sent := s.log.sent(t)
	before := append(sent[0].PromptTokenIDs, sent[0].CompletionTokenIDs...)
	require.Equal(t, before, sent[2].PromptTokenIDs[:len(before)], "the second prompt continues the first turn")
}

// Scripts name OpenCode's tools. For an agent without these tools the calls are converted to calls of its shell.
func TestToolsOfOtherAgents(t *testing.T) {
	t.Parallel()
	s := serve(t, `
turns:
  - tool_calls:
      - {name: bash, arguments: {command: ls, description: Looks}}
      - {name: write, arguments: {filePath: /x, content: "it's\n"}}
      - {name: read, arguments: {filePath: "/it's"}}
      - {name: edit, arguments: {filePath: /x, oldString: a, newString: b}}
      - {name: other, arguments: {x: 1}}
`)
	shell := func(name, parameter string) object {
		return object{"name": name, "parameters": object{
			"type": "object", "required": []string{parameter, "wait", "why"},
			"properties": object{
				parameter: object{"type": "string"},
				"wait":    object{"type": "boolean"},
				"why":     object{"type": "string"},
			},
		}}
	}
	edit := object{
		"name":       "edit",
		"parameters": object{"type": "object", "properties": object{"file_path": object{"type": "string"}}},
	}

	declared := func(o object) object {
		return object{"name": o["name"], "parametersJsonSchema": o["parameters"]}
	}
	for name, tools := range map[string][]any{
		"declared": {declared(edit), declared(shell("run", "command"))},
		"flat":     {edit, shell("run", "cmd")},
		"function": {object{
			"type":     "function",
			"function": edit,
		}, object{"type": "function", "function": shell("run", "command")}},
	} {
		choice, _ := s.askFor(t, object{"model": "m", "messages": []any{user("go")}, "tools": tools})

		var got []string

		for _, c := range choice["message"].(object)["tool_calls"].([]any) {
			f := c.(object)["function"].(object)

			got = append(got, f["name"].(string))
			if f["name"] == "other" {
				continue
			}

			var args object
			require.NoError(t, json.Unmarshal([]byte(f["arguments"].(string)), &args))
			require.Equal(t, false, args["wait"])
			require.NotEmpty(t, args["why"])

			command, ok := args["cmd"]
			if !ok {
				command = args["command"]
			}

			got = append(got, command.(string))
		}

		require.Equal(t, []string{
			"run",
			"ls",
			"run",
			"cat > '/x' <<'END_OF_FILE'\nit's\nEND_OF_FILE",
			"run",
			`cat '/it'\''s'`,
			"run",
			"python3 -c 'import sys; path, old, new = sys.argv[1:]; text = open(path).read(); assert text.count(old) == 1; " +
				`open(path, "w").write(text.replace(old, new))' '/x' 'a' 'b'`,
			"other",
		}, got, name)
	}
}

// googleCall calls Google's API and returns the objects of the reply: one object, or those of a stream.
func (s *server) googleCall(t *testing.T, method string, body object) []object {
	t.Helper()
	req, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodPost,
		s.URL+"/v1beta/models/g:"+method,
		encode(t, body),
	)
	require.NoError(t, err)
	resp, err := s.Client().Do(req)
	require.NoError(t, err)

	defer func() { _ = resp.Body.Close() }()

	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(raw))

	var all []object

	for part := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		var o object
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(part, "data: ")), &o), part)
		all = append(all, o)
	}

	return all
}

func TestGoogleAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, twoTurns)
	contents := []any{object{"role": "user", "parts": []any{object{"text": "go"}}}}
	ask := func() []any {
		body := object{
			"systemInstruction": object{"parts": []any{object{"text": "be brief"}}}, "contents": contents,
			"tools": []any{object{"functionDeclarations": []any{object{
				"name":                 "bash",
				"parametersJsonSchema": object{"properties": object{"command": object{"type": "string"}}},
			}}}},
		}

		var whole, streamed []any
		for _, o := range s.googleCall(t, "generateContent", body) {
			whole = append(whole, o["candidates"].([]any)[0].(object)["content"].(object)["parts"].([]any)...)
		}

		chunks := s.googleCall(t, "streamGenerateContent?alt=sse", body)
		for i, o := range chunks {
			candidate := o["candidates"].([]any)[0].(object)
			streamed = append(streamed, candidate["content"].(object)["parts"].([]any)...)
			require.Equal(t, i == len(chunks)-1, candidate["finishReason"] == "STOP")
			require.Equal(t, i == len(chunks)-1, o["usageMetadata"] != nil)
			require.Equal(t, "g", o["modelVersion"])
		}

		require.Equal(t, whole, streamed)

		return whole
	}
	first := ask()
	require.Len(t, first, 4)
	require.Equal(t, object{"text": "hm", "thought": true}, first[0])
	require.Equal(t, object{"command": "ls"}, first[2].(object)["functionCall"].(object)["args"])

	var results []any

	for _, part := range first[2:] {
		called := part.(object)["functionCall"].(object)
		results = append(results, object{"functionResponse": object{
			"id":       called["id"],
			"name":     "bash",
			"response": object{"output": "ok"},
		}})
	}

	contents = append(contents, object{"role": "model", "parts": first},
		object{"role": "user", "parts": append(results, object{"text": "a reminder is no new instruction"})})

	require.Equal(t, []any{object{"text": "Done."}}, ask())
	sent := s.log.sent(t)
	before := append(sent[0].PromptTokenIDs, sent[0].CompletionTokenIDs...)
	require.Equal(t, before, sent[2].PromptTokenIDs[:len(before)], "the second prompt continues the first turn")
}

func TestGoogleAPIRefuses(t *testing.T) {
	t.Parallel()

	s := serve(t, twoTurns)
	for _, method := range []string{"streamGenerateContent", "embedContent", ""} {
		req, err := http.NewRequestWithContext(
			t.Context(),
			http.MethodPost,
			s.URL+"/v1beta/models/g:"+method,
			strings.NewReader("{}"),
		)
		require.NoError(t, err)
		resp, err := s.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusNotFound, resp.StatusCode, method)
	}
}
