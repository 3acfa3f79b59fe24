package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
)

func TestCallText(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ name, arguments, want string }{
		{"command", `{"command":"pytest -q","timeout":60}`, "$ pytest -q\ntimeout: 60"},
		{
			"edit", `{"filePath":"a.py","oldString":"x\nb = 1\ny","newString":"x\nb = 2\nc = 3\ny"}`,
			"a.py\n- b = 1\n+ b = 2\n+ c = 3",
		},
		{
			"edits", `{"path":"a.py","edits":[{"old_str":"a","new_str":"b"},{"old_str":"","new_str":"c"}]}`,
			"a.py\n- a\n+ b\n+ c",
		},
		{"file", `{"path":"a.py","content":"x = 1\n"}`, "a.py\nx = 1\n"},
		{"other", `{"n":[1,2],"pattern":"*.go"}`, "n: [1,2]\npattern: *.go"},
		{"a command that is no text", `{"command":["ls","-l"]}`, `command: ["ls","-l"]`},
		{"no JSON", `{"command": `, `{"command": `},
		{"no object", `[1]`, `[1]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, callText(tc.arguments))
		})
	}
}

// The transcript is of a policy: a terminal that shows it executes nothing of it.
func TestViewEscapesTheTranscript(t *testing.T) {
	t.Parallel()

	const hostile = "a\x1b[2Jb\u202ec\r"

	for _, kind := range []transcript.PartKind{
		transcript.System, transcript.User, transcript.ToolResult, transcript.Assistant, transcript.Thinking, transcript.Text,
		transcript.ToolCall, transcript.Failure,
	} {
		var out strings.Builder

		v := newView(&out)
		v.turn(transcript.Turn{
			Turn: 1, Lineage: hostile, FinishReason: hostile, Flaws: []string{hostile}, Broken: hostile, Fallback: hostile,
			Parts: []transcript.Part{{Kind: kind, Name: hostile, CallID: "1", Text: hostile}, {Kind: transcript.ToolResult, CallID: "1"}},
		})
		v.verifier(rollout.Result{
			Grading:       rollout.Grading{Why: hostile, Unseen: []string{hostile}, Notes: []string{hostile}},
			VerifyResults: []rollout.CommandResult{{Cmd: hostile, Stdout: hostile, Stderr: hostile, ExitCode: 1}},
		})
		require.NotContains(t, out.String(), "\x1b", kind)
		require.NotContains(t, out.String(), "\u202e", kind)
		require.Contains(t, out.String(), `a\x1b[2Jb\u202ec`, kind)
	}
}

func TestViewTurnHasLongTextsWhole(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("0123456789", 100_000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := transcript.Part{Kind: transcript.Text, Text: long}

		var answer any

		switch r.URL.RequestURI() {
		case "/rollouts/r/turns?after=1":
			part.Text, part.Bytes = long[:100], len(long)
			answer = transcript.Page{Turns: []transcript.Turn{{Turn: 2, Parts: []transcript.Part{{Kind: transcript.User}, part}}}}
		case "/rollouts/r/turns/2/parts/1?offset=0":
			answer = transcript.Range{Part: transcript.Part{Text: long[:700_000]}, Next: 700_000}
		case "/rollouts/r/turns/2/parts/1?offset=700000":
			answer = transcript.Range{Part: transcript.Part{Text: long[700_000:]}, Offset: 700_000}
		default:
			answer = transcript.Page{}
		}

		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(srv.Close)

	c := &client.Client{URL: srv.URL, HTTP: srv.Client()}

	var out strings.Builder
	require.NoError(t, ViewTurn(t.Context(), c, "r", 2, &out))
	require.Contains(t, out.String(), long)
	require.ErrorContains(t, ViewTurn(t.Context(), c, "r", 3, &out), "the rollout has no turn 3")
}
