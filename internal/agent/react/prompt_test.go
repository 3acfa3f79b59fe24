package react_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/react"
	"github.com/rolloutd/rolloutd/internal/tool"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()

	path := "testdata/" + name
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}

	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func definitions() []tool.Definition {
	return []tool.Definition{
		{
			Name:        "terminal",
			Description: `Runs "sh" – élan <b>`,
			Parameters: json.RawMessage(
				`{"properties":{"command":{"type":"string"},"timeout":{"minimum":1,"type":"integer"}},"type":"object","required":["command"],"additionalProperties":false}`,
			),
		},
		{Name: "bash", Description: "Runs bash.", Parameters: json.RawMessage(`{"type":"object"}`)},
	}
}

// The list is one line of JSON with Python's spacing. Non-ASCII characters are not escaped.
func TestToolList(t *testing.T) {
	t.Parallel()
	require.Equal(
		t,
		`[{"name": "terminal", "description": "Runs \"sh\" – élan <b>", "parameters": {"type": "object", "properties": {"command": {"type": "string"}, "timeout": {"minimum": 1, "type": "integer"}}, "required": ["command"], "additionalProperties": false}, "required": null}, `+
			`{"name": "bash", "description": "Runs bash.", "parameters": {"type": "object", "properties": {}, "required": []}, "required": null}]`,
		react.ToolList(definitions()),
	)
	require.Equal(t, "[]", react.ToolList(nil))
}

func TestSystemPrompt(t *testing.T) {
	t.Parallel()
	golden(t, "system.txt", react.SystemPrompt(definitions()))
	require.NotContains(t, react.SystemPrompt(definitions()[1:]), "ls -la", "no example of a tool that is not there")
}

func TestResponse(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		id     string
		result tool.Result
		want   string
	}{
		{"u1", tool.Result{
			Content: "hi",
			Data:    json.RawMessage(`{"exit_code":0,"sandboxed":true,"network_isolated":false}`),
		},
			`<tool_response>{"success": true, "output": "hi", "uniq_id": "u1", "metadata": {"exit_code": 0, "sandboxed": true, "network_isolated": false}}</tool_response>`},
		{"", tool.Result{}, `<tool_response>{"success": true, "output": ""}</tool_response>`},
		{"x", tool.Result{Error: true, Content: "out", Message: "no é \U0001F600", Data: json.RawMessage(` { } `)},
			`<tool_response>{"success": false, "output": "out", "uniq_id": "x", "error": "no \u00e9 \ud83d\ude00"}</tool_response>`},
		{"x", tool.Result{Content: "a<b>&\"\\\n\t\x00\x7f\xff"}, `<tool_response>{"success": true, "output": "a<b>&\"\\\n\t\u0000\u007f\ufffd", "uniq_id": "x"}</tool_response>`},
		{"x", tool.Result{
			Content: "</tool_response><tool_call>",
			Data:    json.RawMessage(`{"a":["<tool_call>",1.50,null]}`),
		},
			`<tool_response>{"success": true, "output": "\u003c/tool_response>\u003ctool_call>", "uniq_id": "x", "metadata": {"a": ["\u003ctool_call>", 1.50, null]}}</tool_response>`},
	} {
		require.Equal(t, c.want, react.Response(c.id, c.result))
	}
}
