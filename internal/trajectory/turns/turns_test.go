package turns_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

func TestEach(t *testing.T) {
	t.Parallel()

	var ids []string

	take := func(t *rollout.Turn) error { ids = append(ids, t.CallID); return nil }
	require.NoError(
		t,
		turns.Each(strings.NewReader("{\"call_id\":\"a\"}\n\n {\"call_id\":\"b\"}"), turns.Bounded, take),
	)
	require.Equal(t, []string{"a", "b"}, ids)

	enough := errors.New("enough")
	require.ErrorIs(
		t,
		turns.Each(strings.NewReader("{}\n{}\n"), turns.Bounded, func(*rollout.Turn) error { return enough }),
		enough,
	)

	fails := func(trace string) error { return turns.Each(strings.NewReader(trace), turns.Bounded, take) }
	require.True(t, fault.Is(fails(strings.Repeat(" ", turns.Bounded+1)), fault.Exhausted))

	for _, line := range []string{
		"{]", "[]", "7", `{"turn":"one"}`, `{"turn":1} {}`, `{"prompt_token_ids":[1,-2]}`, `{"prompt_token_ids":[1,2147483648]}`, `{"prompt_token_ids":[1.5]}`,
		`{"prompt_token_ids":7}`, `{"loss_mask":[2]}`, `{"loss_mask":7}`,
	} {
		require.True(t, fault.Is(fails(line), fault.Internal), line)
	}

	broken := io.MultiReader(strings.NewReader("{}\n{"), iotest.ErrReader(errors.New("reset")))
	require.True(t, fault.Is(turns.Each(broken, turns.Bounded, take), fault.Unavailable))
}

// FuzzTurn checks that a turn is decoded as by encoding/json.
func FuzzTurn(f *testing.F) {
	for _, line := range []string{
		`{}`, `{"turn":1,"prompt_token_ids":[1,2,30000],"completion_token_ids":[4],"loss_mask":[0,0,0,1],"request":{"messages":[]},"response":null}`,
		`{"prompt_token_ids":null,"loss_mask":null,"request":null}`, `{"request":{"a":"\u003c\ud83d"},"response":{"b":[1, 2]},"upstream_error":{"c":1},"flaws":["x"]}`,
		`{"prompt_token_ids":[ 1 , 2 ],"train":true,"prefix_break":{"after_turn":1,"at":0},"usage":{"prompt_tokens":2}}`, `{"prompt_token_ids":[]}`,
	} {
		f.Add(line)
	}

	f.Fuzz(func(t *testing.T, line string) {
		var want rollout.Turn
		if strings.ContainsAny(line, "\n\r") || !json.Valid([]byte(line)) ||
			json.Unmarshal([]byte(line), &want) != nil {
			t.Skip()
		}

		err := turns.Each(strings.NewReader(line), turns.Bounded, func(got *rollout.Turn) error {
			require.Equal(t, encode(t, want), encode(t, *got))
			return nil
		})
		if err != nil {
			// stricter than encoding/json for repeated keys, keys in another case, and numbers such as 1e2
			t.Skip(err)
		}
	})
}

func encode(t *testing.T, turn rollout.Turn) string {
	t.Helper()

	text, err := json.Marshal(turn)
	require.NoError(t, err)

	return string(text)
}
