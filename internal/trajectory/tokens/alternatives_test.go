package tokens_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/tokens"
)

// trace has a turn for each reply.
func trace(t testing.TB, replies ...string) *strings.Reader {
	t.Helper()

	var lines strings.Builder
	for i, reply := range replies {
		require.NoError(t, json.NewEncoder(&lines).Encode(rollout.Turn{Turn: i + 1, Response: json.RawMessage(reply)}))
	}

	return strings.NewReader(lines.String())
}

func TestAlternatives(t *testing.T) {
	t.Parallel()

	long := strings.TrimSuffix(strings.Repeat(`{"top_logprobs":[{"token":"x","logprob":-1}]},`, 1500), ",")
	many := strings.TrimSuffix(strings.Repeat(`{"token":"x","logprob":-1},`, 30), ",")

	for name, c := range map[string]struct {
		reply string
		start int
		want  string
	}{
		"chat":           {`{"choices":[{"logprobs":{"content":[{"top_logprobs":[{"token":"b","logprob":-2},{"token":"a","logprob":-1}]},{}]}}]}`, 0, "0: a -1, b -2 |  |"},
		"from a token":   {`{"choices":[{"logprobs":{"content":[{"top_logprobs":[]},{"top_logprobs":[{"token":"a","logprob":-1}]}]}}]}`, 1, "1: a -1 |"},
		"after the last": {`{"choices":[{"logprobs":{"content":[{}]}}]}`, 9, "1:"},
		"completion":     {`{"choices":[{"logprobs":{"top_logprobs":[{"token_id:7":-3,"token_id:8":-0.5},null]}}]}`, 0, "0: token_id:8 -0.5, token_id:7 -3 |  |"},
		"response":       {`{"output":[{"content":[{"logprobs":[{"top_logprobs":[{"token":"a","logprob":0}]}]}]},{}]}`, 0, "0: a 0 |"},
		"null":           {`{"choices":[{"logprobs":{"content":[{"top_logprobs":[{"token":"a","logprob":null}]}]}}]}`, 0, "0:  |"},
		"none recorded":  {`{"choices":[{"logprobs":null}]}`, 0, "0:"},
		"another form":   {`{"choices":"<b>"}`, 0, "0:"},
		"no reply":       {`null`, 0, "0:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := tokens.ReadAlternatives(trace(t, `{}`, c.reply), 2, c.start)
			require.NoError(t, err)

			text := fmt.Sprintf("%d:", got.Start)
			for _, position := range got.Positions {
				var likely []string
				for _, a := range position {
					likely = append(likely, fmt.Sprint(a.Text, " ", a.Logprob))
				}

				text += " " + strings.Join(likely, ", ") + " |"
			}

			require.Equal(t, c.want, text)
		})
	}

	got, err := tokens.ReadAlternatives(trace(t, `{"choices":[{"logprobs":{"content":[`+long+`]}}]}`), 1, 400)
	require.NoError(t, err)
	require.Len(t, got.Positions, 1000)

	got, err = tokens.ReadAlternatives(trace(t, `{"choices":[{"logprobs":{"content":[{"top_logprobs":[`+many+`]}]}}]}`), 1, 0)
	require.NoError(t, err)
	require.Len(t, got.Positions[0], 20)

	var parts []string

	replies := trace(t, `{}`, `{"choices":[{"logprobs":{"content":[{}]}}]}`, `{"choices":[{"logprobs":{"content":[`+long+`]}}]}`)
	require.NoError(t, tokens.EachAlternatives(replies, func(turn int, a tokens.Alternatives) error {
		parts = append(parts, fmt.Sprint(turn, " ", a.Start, " ", len(a.Positions)))
		return nil
	}))
	require.Equal(t, []string{"3 0 1000", "3 1000 500"}, parts, "of turns that have alternatives")

	_, err = tokens.ReadAlternatives(trace(t, `{}`), 3, 0)
	require.True(t, fault.Is(err, fault.NotFound), err)
}

// No reply of an endpoint makes the reader fail.
func FuzzAlternatives(f *testing.F) {
	f.Add([]byte(`{"choices":[{"logprobs":{"content":[{"top_logprobs":[{"token":"a","logprob":-1}]}],"top_logprobs":[{"a":1}]}}]}`), 0)
	f.Add([]byte(`{"output":[{"content":[{"logprobs":[{"top_logprobs":[{"token":"\ud800","logprob":1e400}]}]}]}]}`), 1)
	f.Fuzz(func(t *testing.T, reply []byte, start int) {
		if !json.Valid(reply) || start < 0 {
			return
		}

		got, err := tokens.ReadAlternatives(trace(t, string(reply)), 1, start)
		if err != nil {
			return // the line is no turn
		}

		_, err = json.Marshal(got)
		require.NoError(t, err)
	})
}
