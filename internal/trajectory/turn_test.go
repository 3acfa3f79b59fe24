package trajectory_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// Trainers read the trace, so a change of its format must be deliberate.
func TestExportGolden(t *testing.T) {
	t.Parallel()
	l := openLog(t)
	require.NoError(t, l.Append(turnRecord(1, "a")))
	require.NoError(t, l.Delivered(1))

	broken := turnRecord(2, "b")
	broken.Broken, broken.FinishReason, broken.Status = "failed: no answer", "", 503
	broken.Reply, broken.PromptTokenIDs, broken.TokenIDs, broken.Logprobs = nil, nil, nil, nil
	broken.UpstreamError = json.RawMessage(`{"message":"overloaded"}`)
	broken.Engine = "http://second:8000/v1"
	require.NoError(t, l.Append(broken))

	var got bytes.Buffer
	require.NoError(t, trajectory.Export(l, &got, trajectory.ExportOptions{}))

	compact, compactor := make([]rollout.CompactTurn, 0, 2), trajectory.Compactor{}
	for _, turn := range turnsOf(t, l) {
		compact = append(compact, compactor.Compact(turn))
	}

	short, err := json.MarshalIndent(compact, "", "  ")
	require.NoError(t, err)
	golden(t, "testdata/trace.jsonl", got.Bytes())
	golden(t, "testdata/proxy_turns.json", append(short, '\n'))
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()

	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}

	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// Bodies that are not JSON or not UTF-8 still result in valid lines of the trace.
func TestExportIsAlwaysReadable(t *testing.T) {
	t.Parallel()
	l := openLog(t)
	odd := turnRecord(1, "a")
	odd.Request = []byte("{\"model\":NaN,\"x\":\"\xff\"}")
	odd.Reply = []byte(
		"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"},\"logprobs\":{\"content\":[{\"token\":\"\xff\",\"logprob\":NaN}]},\"finish_reason\":\"stop\"}]}\n\n",
	)
	require.NoError(t, l.Append(odd))

	none := turnRecord(2, "b")
	none.Request, none.Reply = []byte("no json\n"), []byte("data: nonsense\n\ndata: x\n\n")
	require.NoError(t, l.Append(none))
	// a tool's input is sampled by the model and may have any depth
	deep := turnRecord(3, "c")
	deep.API, deep.Reply = string(reply.Messages), []byte(
		`{"type":"message","content":[{"input":`+strings.Repeat("[", 9_990)+strings.Repeat("]", 9_990)+`}]}`,
	)
	require.NoError(t, l.Append(deep))

	var out bytes.Buffer
	require.NoError(t, trajectory.Export(l, &out, trajectory.ExportOptions{}))
	require.True(t, utf8.Valid(out.Bytes()))
	require.Equal(t, 3, bytes.Count(out.Bytes(), []byte("\n")))
	turns := turnsOf(t, l)
	require.Equal(t, []string{"\uFFFD"}, turns[0].CompletionTokens)
	require.JSONEq(t, "\"no json\\n\"", string(turns[1].Request))
	require.Equal(t, "null", string(turns[1].Response))
	require.Contains(t, turns[1].Flaws[0], "reply unreadable")
	require.Equal(t, "null", string(turns[2].Response))
	require.Equal(t, []string{"reply unreadable: it is nested too deep"}, turns[2].Flaws)
}
