package trainerapi

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// A group with what Python writes, and its own reader accepts, is not lost: half of a surrogate pair, and a name twice.
func TestGroupsAsPythonWritesThem(t *testing.T) {
	t.Parallel()

	const odd = `{"tokens":[[9]],"tokens":[[1]],"masks":[[1]],"scores":[1.0],"messages":[[{"role":"a","content":"\ud83d"}]],"more":1}`

	g, err := parseGroup([]byte(odd))
	require.NoError(t, err)

	payload := string(g.payload())
	require.Contains(t, payload, `"messages":[[{"role":"a","content":"\ud83d"}]]`)
	require.Contains(t, payload, `"tokens":[[1]],"masks":[[1]],"scores":[1.0],"advantages":null`)
	require.NotContains(t, payload, "more")
}

// A text is a group, which is served as JSON, or an error that names a field.
func FuzzGroup(f *testing.F) {
	for _, text := range []string{
		`{"tokens":[[1,2]],"masks":[[-100,2]],"scores":[0.5],"inference_logprobs":[[1.0,-0.25]],"env_id":0}`,
		`{"tokens":[[1]],"masks":[[1]],"scores":[1],"advantages":null,"ref_logprobs":[],"images":[{"a":"\ud800"}]}`,
		`{"tokens":[[1,]],"masks":[[1]],"scores":[NaN]}`, `{"tokens":[[1]}`, `{"a":1 "b":2}`, `{"tokens" [[1]]}`, "{\"\xff\":1}", `{"":NaN}`, "[", "",
	} {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := parseGroup(text)
		if err != nil {
			var wrong *fault.Error
			require.True(t, asField(err, &wrong), "%v", err)

			return
		}

		require.True(t, json.Valid(text), "%q", text)
		require.True(t, json.Valid(g.payload()), "%q", g.payload())
	})
}
