package transcript_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/traceindex"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
)

// call is a model call of a test: the request, the reply.
type call struct{ request, reply string }

func linesOf(t *testing.T, calls ...call) string {
	t.Helper()

	var out strings.Builder

	for i, c := range calls {
		line, err := json.Marshal(rollout.Turn{
			Turn: i + 1, Kind: rollout.KindAgent, Lineage: "s", Delivered: true,
			Request: json.RawMessage(c.request), Response: json.RawMessage(c.reply),
		})
		require.NoError(t, err)
		out.Write(append(line, '\n'))
	}

	return out.String()
}

// indexOf returns the index of a trace, by which conversations are read.
func indexOf(t *testing.T, lines string) *traceindex.Index {
	t.Helper()

	index, err := traceindex.Of(strings.NewReader(lines))
	require.NoError(t, err)

	return index
}

// shown returns the parts of each turn as "kind name: text".
func shown(page transcript.Page) (all [][]string) {
	for _, turn := range page.Turns {
		var parts []string
		for _, p := range turn.Parts {
			parts = append(parts, strings.TrimSuffix(string(p.Kind)+" "+p.CallID+" "+p.Name, " ")+": "+p.Text)
		}

		all = append(all, parts)
	}

	return all
}

const (
	ask  = `{"role":"system","content":"be good"},{"role":"user","content":"go"}`
	runs = `{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}`
)

// Each message is shown once, in the call that first had it, whatever the model's API and however the agent writes
// the earlier reply.
func TestMessagesAreShownOnce(t *testing.T) {
	t.Parallel()

	first := []string{"system : be good", "user : go", "thinking : hm", "text : I look.", `tool_call c1 bash: {"command":"ls"}`}
	second := []string{"tool_result c1: a.txt", "text : done"}
	chatReply := `{"choices":[{"message":{"role":"assistant","reasoning_content":"hm","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}}]}`
	result := `{"role":"tool","tool_call_id":"c1","content":"a.txt"}`
	done := `{"choices":[{"message":{"role":"assistant","content":"done"}}]}`

	for name, c := range map[string]struct {
		calls []call
		shown [][]string
	}{
		"chat completions": {
			[]call{{`{"messages":[` + ask + `]}`, chatReply}, {`{"messages":[` + ask + `,` + runs + `,` + result + `]}`, done}},
			[][]string{first, second},
		},
		"arguments in another form of JSON, a trimmed text": {
			[]call{
				{`{"messages":[` + ask + `]}`, chatReply},
				{`{"messages":[` + ask + `,` + strings.NewReplacer(`\"command\":\"ls\"`, `\"command\": \"ls\"`, "look.", "look. ").Replace(runs) + `,` + result + `]}`, done},
			},
			[][]string{first, second},
		},
		"a reply that the agent changed": {
			[]call{
				{`{"messages":[` + ask + `]}`, chatReply},
				{`{"messages":[` + ask + `,` + strings.Replace(runs, "I look.", "I LOOK.", 1) + `,` + result + `]}`, done},
			},
			[][]string{first, append([]string{"assistant : I LOOK.", `tool_call c1 bash: {"command":"ls"}`}, second...)},
		},
		"messages": {
			[]call{
				{`{"system":"be good","messages":[{"role":"user","content":"go"}]}`, `{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"bash","input":{"command":"ls"}}]}`},
				{`{"system":"be good","messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"bash","input":{"command":"ls"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"a.txt"}]}]}]}`, `{"content":[{"type":"text","text":"done"}]}`},
			},
			[][]string{first, second},
		},
		"responses": {
			[]call{
				{`{"instructions":"be good","input":"go"}`, `{"output":[{"type":"reasoning","summary":[{"text":"hm"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},{"type":"function_call","call_id":"c1","name":"bash","arguments":"{\"command\":\"ls\"}"}]}`},
				{`{"instructions":"be good","input":["skipped",{"role":"user","content":"go"}]}`, `{"output":[]}`},
			},
			[][]string{first, {}},
		},
		"a conversation that begins again": {
			[]call{{`{"messages":[` + ask + `]}`, done}, {`{"messages":[{"role":"system","content":"be good"},{"role":"user","content":"summary"}]}`, done}},
			[][]string{{"system : be good", "user : go", "text : done"}, {"user : summary", "text : done"}},
		},
		"no object, an odd message": {
			[]call{{`"text"`, `null`}, {`{"messages":[{"role":5}]}`, `[]`}},
			[][]string{nil, {`user : {"role":5}`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			page, err := indexOf(t, linesOf(t, c.calls...)).Turns(0, 10)
			require.NoError(t, err)

			got := shown(page)
			require.Len(t, got, len(c.shown))

			for i := range got {
				require.ElementsMatch(t, c.shown[i], got[i], "turn %d", i+1)
			}
		})
	}
}

// Pages follow each other without a gap, and a long text is complete in ranges, at the ends of characters.
func TestLongTracesAndTexts(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("größe ", 100_000)
	calls := make([]call, 30)

	for i := range calls {
		calls[i] = call{fmt.Sprintf(`{"messages":[{"role":"user","content":"%d"}]}`, i), `{"choices":[{"message":{"content":"x"}}]}`}
	}

	calls[7].reply = `{"choices":[{"message":{"role":"assistant","content":"` + long + `"}}]}`
	lines := linesOf(t, calls...)

	var turns []transcript.Turn

	for after := 0; ; {
		page, err := indexOf(t, lines).Turns(after, 7)
		require.NoError(t, err)

		turns = append(turns, page.Turns...)
		if after = page.Next; after == 0 {
			break
		}
	}

	require.Len(t, turns, len(calls))

	cut := turns[7].Parts[1]
	require.Equal(t, len(long), cut.Bytes)
	require.Less(t, len(cut.Text), 64<<10)
	require.True(t, utf8.ValidString(cut.Text))

	whole := ""

	for offset := 0; ; {
		r, err := indexOf(t, lines).Part(8, 1, offset)
		require.NoError(t, err)
		require.True(t, utf8.ValidString(r.Text))

		whole += r.Text
		if offset = r.Next; offset == 0 {
			break
		}
	}

	require.Equal(t, long, whole)

	_, err := indexOf(t, lines).Part(8, 2, 0)
	require.True(t, fault.Is(err, fault.NotFound), err)
	_, err = indexOf(t, lines).Part(31, 0, 0)
	require.True(t, fault.Is(err, fault.NotFound), err)
}

// A turn with very many messages says how many are not in the page; they can still be read.
func TestManyParts(t *testing.T) {
	t.Parallel()

	messages := make([]string, transcript.MaxParts+20)
	for i := range messages {
		messages[i] = fmt.Sprintf(`{"role":"user","content":"%d"}`, i)
	}

	lines := linesOf(t, call{`{"messages":[` + strings.Join(messages, ",") + `]}`, `null`})
	page, err := indexOf(t, lines).Turns(0, 1)
	require.NoError(t, err)
	require.Len(t, page.Turns[0].Parts, transcript.MaxParts)
	require.Equal(t, 20, page.Turns[0].PartsOmitted)

	r, err := indexOf(t, lines).Part(1, transcript.MaxParts+19, 0)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(transcript.MaxParts+19), r.Text)
}

func FuzzRead(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, `{"choices":[{"message":{"content":"a","tool_calls":[{"function":{"name":"x","arguments":{}}}]}}]}`)
	f.Add(`{"input":[{"type":"function_call_output","call_id":"c","output":"x"}]}`, `{"output":[{"type":"function_call","name":"f"}]}`)
	f.Add(`{"system":[{"text":"s"}],"messages":"x"}`, `{"content":[{"type":"tool_use","input":[]}]}`)
	f.Fuzz(func(t *testing.T, request, reply string) {
		if !json.Valid([]byte(request)) || !json.Valid([]byte(reply)) {
			t.Skip()
		}

		lines := linesOf(t, call{request, reply}, call{request, reply})
		page, err := indexOf(t, lines).Turns(0, 10)
		require.NoError(t, err)
		require.Len(t, page.Turns, 2)
	})
}
