package trajectory_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

func transcript(parts ...string) rollout.Transcript {
	return rollout.Transcript{Messages: []json.RawMessage{
		json.RawMessage(`{"info":{"role":"user"},"parts":[{"type":"text","text":"the user's own words"}]}`),
		json.RawMessage(`{"info":{"role":"assistant"},"parts":[` + strings.Join(parts, ",") + `]}`),
	}}
}

// A turn whose reply is not in the transcript was not made by the agent's session, regardless of its headers.
func TestTranscriptKnowsTheAgentsTurns(t *testing.T) {
	t.Parallel()
	known := transcript(
		`{"type":"step-start"}`, `{"type":"reasoning","text":"let me think"}`, `{"type":"text","text":"  Hello é\n"}`,
		`{"type":"tool","callID":"call_1","tool":"bash","state":{}}`,
	)
	chat := func(message string) string { return `{"choices":[{"message":` + message + `}]}` }
	for _, tc := range []struct {
		name, response string
		known          bool
	}{
		{"its text", chat(`{"content":"  Hello \u00e9\n"}`), true},
		{"its text without spaces", chat(`{"content":"Hello é"}`), true},
		{"its tool call", chat(`{"content":null,"tool_calls":[{"id":"call_1"}]}`), true},
		{"its reasoning alone", chat(`{"content":"","reasoning_content":"let me think"}`), true},
		{"nothing said", chat(`{"content":""}`), true},
		{"no reply", `null`, true},
		{"other text", chat(`{"content":"forged"}`), false},
		{"the user's words", chat(`{"content":"the user's own words"}`), false},
		{"its text with another's tool call", chat(`{"content":"Hello é","tool_calls":[{"id":"call_9"}]}`), false},
		{"responses: its call", `{"output":[{"type":"function_call","call_id":"call_1"}]}`, true},
		{"responses: its text", `{"output":[{"content":[{"text":"Hello é"}]}]}`, true},
		{"responses: other text", `{"output":[{"content":[{"text":"forged"}]}]}`, false},
		{"messages: its call", `{"content":[{"type":"tool_use","id":"call_1"}]}`, true},
		{"messages: other text", `{"content":[{"type":"text","text":"forged"}]}`, false},
		{"completions: other text", `{"choices":[{"text":"forged"}]}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			line := fmt.Sprintf(`{"turn":1,"train":true,"flaws":["a"],"response":%s,"x":1.0}`+"\n", tc.response)
			var out, untouched bytes.Buffer
			require.NoError(t, trajectory.Check(&out, strings.NewReader(line), trajectory.NewTranscriptReplies(known)))
			if tc.known {
				require.Equal(t, line, out.String())
			} else {
				var turn rollout.Turn
				require.NoError(t, json.Unmarshal(out.Bytes(), &turn))
				require.False(t, turn.Train)
				require.Len(t, turn.Flaws, 2)
				require.True(t, strings.HasSuffix(out.String(), "\"x\":1.0}\n"))
			}
			require.NoError(t, trajectory.Check(&untouched, strings.NewReader(line), trajectory.NewTranscriptReplies(rollout.Transcript{})))
			require.Equal(t, line, untouched.String(), "an agent without a transcript of this form")
		})
	}
}

// A broken line is an error. No valid line is lost.
func TestCheckOfBrokenTraces(t *testing.T) {
	t.Parallel()
	said := trajectory.NewTranscriptReplies(transcript(`{"type":"text","text":"a"}`))
	require.Error(t, trajectory.Check(&bytes.Buffer{}, strings.NewReader("{]\n"), said))
	var out bytes.Buffer
	lines := `{"train":false}` + "\n" + `{"train":true,"response":{"choices":[{"message":{"content":"a"}}]}}`
	require.NoError(t, trajectory.Check(&out, strings.NewReader(lines), said))
	require.Equal(t, lines, out.String())
}
