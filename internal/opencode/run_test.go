package opencode_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/opencode"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

func runFake(t *testing.T) (*fakeBox, *opencode.Agent) {
	t.Helper()
	b := &fakeBox{files: map[string][]byte{"/opt/rolloutd/agents/opencode/1.18.33/models.json": []byte("{}")}}
	return b, opencode.New(opencode.Options{Platform: "linux/amd64", Mode: opencode.Run})
}

// recorded is the output of a real `opencode run --format json` of two model calls.
func recorded(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "run.jsonl"))
	require.NoError(t, err)
	return string(text)
}

func TestRunModeLaunch(t *testing.T) {
	t.Parallel()
	b, a := runFake(t)
	st, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	require.False(t, st.Done)
	require.Equal(t, []string{"run", "--format", "json", "--title", "rollout", "--auto", "--print-logs", "--log-level", "INFO"}, b.started[0].Argv[1:])
	require.Equal(t, "do \"it\"\n", string(b.started[0].Stdin))
}

func TestRunModeStatus(t *testing.T) {
	t.Parallel()
	const broke = `{"type":"error","timestamp":1795225522999,"sessionID":"ses_1","error":{"name":"APIError","data":{"message":"no such key"}}}` + "\n"
	for name, c := range map[string]struct {
		out, stderr string
		end         wire.Status
		want        string
	}{
		"answer":  {out: recorded(t)},
		"refused": {broke, "", wire.Status{ExitCode: 1}, "APIError: no such key"},
		"crash":   {"", "panic", wire.Status{ExitCode: 2}, "opencode exited with code 2; its last words: panic"},
		"killed":  {recorded(t), "", wire.Status{ExitCode: 137, Signal: "killed"}, "opencode was killed by signal killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, a := runFake(t)
			_, err := a.StartIn(t.Context(), b, testJob())
			require.NoError(t, err)
			b.write(c.out, c.stderr)
			b.end(c.end)
			st, err := a.WaitIn(t.Context(), b, testJob(), patient)
			require.NoError(t, err)
			require.True(t, st.Done)
			require.Equal(t, c.end.ExitCode, st.ExitCode)
			require.Equal(t, c.want, st.Error)
		})
	}
}

func TestRunModeTellsSessionAndSigns(t *testing.T) {
	t.Parallel()
	b, a := runFake(t)
	_, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	b.write(recorded(t)+`{"type":"text","timesta`, "")
	st, err := a.WaitIn(t.Context(), b, testJob(), 0)
	require.NoError(t, err)
	require.False(t, st.Done)
	require.Equal(t, "ses_e0424480affe0HYLJGMO5XiuxH", st.SessionID)
	require.EqualValues(t, 1795226843821, st.LastSign.UnixMilli())
}

// The transcript of run mode has the shape of serve mode's, and rendering it as a log gives back the events it came from.
func TestRunModeTranscript(t *testing.T) {
	t.Parallel()
	b, a := runFake(t)
	_, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	b.write("no event\n"+recorded(t), "")
	got, err := a.TranscriptIn(t.Context(), b, testJob())
	require.NoError(t, err)
	require.Equal(t, "ses_e0424480affe0HYLJGMO5XiuxH", got.SessionID)
	require.Len(t, got.Messages, 3)
	require.Contains(t, string(got.Messages[0]), `"text":"do \"it\"\n"`)
	require.Contains(t, string(got.Messages[1]), `"finish":"tool-calls"`)

	type line struct {
		Type string
		Part json.RawMessage
	}
	parse := func(text string) (all []line) {
		for s := range strings.Lines(text) {
			var l line
			require.NoError(t, json.Unmarshal([]byte(s), &l))
			all = append(all, l)
		}
		return all
	}
	want, have := parse(recorded(t)), parse(string(opencode.AgentLog(got)))
	require.Len(t, have, len(want))
	for i := range want {
		require.Equal(t, want[i].Type, have[i].Type)
		require.JSONEq(t, string(want[i].Part), string(have[i].Part))
	}
}

func FuzzRunTranscript(f *testing.F) {
	f.Add(`{"type":"error","timestamp":1,"sessionID":"s","error":{"name":"E"}}`)
	f.Add(`{"type":"text","timestamp":1,"sessionID":"s","part":{"messageID":"m","text":"x"}}` + "\n{")
	f.Add(`{"type":"step_finish","part":null}`)
	f.Fuzz(func(t *testing.T, out string) {
		b, a := runFake(t)
		_, err := a.StartIn(t.Context(), b, testJob())
		require.NoError(t, err)
		b.write(out, "")
		got, err := a.TranscriptIn(t.Context(), b, testJob())
		require.NoError(t, err)
		require.NotEmpty(t, got.Messages)
		for line := range strings.Lines(string(opencode.AgentLog(got))) {
			require.True(t, json.Valid([]byte(line)), line)
		}
	})
}

// AgentLog of what serve mode tells: unfinished tools are left out, errors and thoughts are in.
func TestAgentLog(t *testing.T) {
	t.Parallel()
	got := opencode.AgentLog(rollout.Transcript{SessionID: "ses_1", Messages: []json.RawMessage{
		json.RawMessage(`{"info":{"role":"user","time":{"created":1}},"parts":[{"type":"text","text":"hi"}]}`),
		json.RawMessage(`{"info":{"role":"assistant","time":{"created":10,"completed":90},"error":{"name":"MessageAbortedError"}},"parts":[
			{"type":"step-start"},{"type":"reasoning","text":"<hm>","time":{"start":11,"end":20}},{"type":"text","text":"é","time":{"start":20,"end":30}},
			{"type":"tool","tool":"bash","state":{"status":"completed","time":{"start":31,"end":50}}},{"type":"tool","tool":"bash","state":{"status":"running"}}]}`),
		json.RawMessage(`not JSON`),
	}})
	require.Equal(t, `{"type":"step_start","timestamp":10,"sessionID":"ses_1","part":{"type":"step-start"}}
{"type":"reasoning","timestamp":20,"sessionID":"ses_1","part":{"type":"reasoning","text":"<hm>","time":{"start":11,"end":20}}}
{"type":"text","timestamp":30,"sessionID":"ses_1","part":{"type":"text","text":"é","time":{"start":20,"end":30}}}
{"type":"tool_use","timestamp":50,"sessionID":"ses_1","part":{"type":"tool","tool":"bash","state":{"status":"completed","time":{"start":31,"end":50}}}}
{"type":"error","timestamp":90,"sessionID":"ses_1","error":{"name":"MessageAbortedError"}}
`, string(got))
}
