package samplingmask_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/samplingmask"
)

func TestDecode(t *testing.T) {
	t.Parallel()

	got, err := samplingmask.Decode([]byte(`[[7, 300],[8]]`), []byte(`[-0.5,0]`), []int32{300, 8})
	require.NoError(t, err)
	require.Equal(t, samplingmask.Mask{
		Rows: 2, IDs: 3, Logprobs: []float64{-0.5, 0},
		Data: []byte{2, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 44, 1, 0, 0, 8, 0, 0, 0},
	}, got)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ rows, logprobs, want string }{
		"nothing":                     {``, `[-1]`, "gave none"},
		"no log probabilities":        {`[[7]]`, ``, "gave none"},
		"a row less":                  {`[]`, `[-1]`, "0 rows for 1 tokens"},
		"a row more":                  {`[[7],[7]]`, `[-1]`, "not a list for each of 1 tokens"},
		"no rows":                     {`[7]`, `[-1]`, "not a list for each"},
		"a row without its token":     {`[[8,9]]`, `[-1]`, "row 0 lacks the sampled token 7"},
		"an empty row":                {`[[]]`, `[-1]`, "row 0 lacks the sampled token 7"},
		"a negative id":               {`[[7,-1]]`, `[-1]`, "not a list of lists of ids"},
		"a row cut off":               {`[[7`, `[-1]`, "not a list of lists of ids"},
		"more after it":               {`[[7]] 1`, `[-1]`, "not a list of lists of ids"},
		"a log probability more":      {`[[7]]`, `[-1,-1]`, "not one for each of 1 tokens"},
		"a log probability less":      {`[[7]]`, `[]`, "not one for each of 1 tokens"},
		"lists of log probabilities":  {`[[7]]`, `[[-1]]`, "not one for each of 1 tokens"},
		"no list of log probabilites": {`[[7]]`, `-1`, "not one for each of 1 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := samplingmask.Decode([]byte(c.rows), []byte(c.logprobs), []int32{7})
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Whatever an endpoint sends, a mask has a row for each sampled token, and every token that its rows count.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`[[7,300],[8]]`), []byte(`[-0.5,0]`))
	f.Add([]byte(`[[7],[8]]`), []byte(`[null,NaN]`))
	f.Add([]byte(`[[7],{}]`), []byte(`[-1,"x"]`))

	f.Fuzz(func(t *testing.T, rows, logprobs []byte) {
		got, err := samplingmask.Decode(rows, logprobs, []int32{7, 8})
		if err != nil {
			return
		}

		require.Equal(t, 2, got.Rows)
		require.Len(t, got.Logprobs, 2)
		require.Len(t, got.Data, 4*(got.Rows+got.IDs))
		require.LessOrEqual(t, got.IDs, len(rows))
	})
}
