package rawjson_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Lists of ids of every length, in either spelling, are read as they are written, and known to be spelt plainly.
func TestIDsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	edges := []int32{0, 1, 9, 10, 999999, 1000000, 9999999, 10000000, 99999999, 100000000, 999999999, 1000000000, math.MaxInt32}
	for n := 1; n < 300; n++ {
		ids := make([]int32, n)
		for i := range ids {
			if ids[i] = random.Int32N(1 + random.Int32N(200000)); random.IntN(10) == 0 {
				ids[i] = edges[random.IntN(len(edges))]
			}
		}
		for _, spaced := range []bool{false, true} {
			var r reply.Reply
			event := append(rawjson.AppendIDs([]byte(`{"prompt_token_ids":`), ids, spaced), '}')
			require.NoError(t, r.Event(event), "%s", event)
			require.Equal(t, ids, r.PromptTokenIDs, "%s", event)
			require.Equal(t, rawjson.Span{Start: len(`{"prompt_token_ids":`), End: len(event) - 1, Spaced: spaced && n > 1}, r.PromptAt, "%s", event)
		}
	}
}

// A value that is not a plain list of ids is either refused, or read and not reported as plainly spelt.
func TestOddIDs(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]int32{
		`[01,2,3,4,5,6,7,8,9]`:       {1, 2, 3, 4, 5, 6, 7, 8, 9},
		`[1,00,3,4,5,6,7,8,9]`:       {1, 0, 3, 4, 5, 6, 7, 8, 9},
		`[1, 2,3,4,5,6,7,8,9]`:       {1, 2, 3, 4, 5, 6, 7, 8, 9},
		`[ 1,2,3,4,5,6,7,8,9 ]`:      {1, 2, 3, 4, 5, 6, 7, 8, 9},
		`[1,2,3,,4,5,6,7,8,9]`:       nil,
		`[1,2,3,4,5,6,7,8,9,]`:       nil,
		`[1,2,-3,4,5,6,7,8,9]`:       nil,
		`[1,2,3.5,4,5,6,7,8,9]`:      nil,
		`[1,2,2147483648,4,5,6,7]`:   nil,
		`[1,2,99999999999,4,5,6]`:    nil,
		"[1,2,\xb1\xb2,4,5,6,7,8,9]": nil,
		`[1,2,:,4,5,6,7,8,9,10,11]`:  nil,
		`[1,2,/,4,5,6,7,8,9,10,11]`:  nil,
	} {
		var r reply.Reply
		err := r.Event([]byte(`{"prompt_token_ids":` + list + `}`))
		if want == nil {
			require.Error(t, err, list)
			continue
		}
		require.NoError(t, err, list)
		require.Equal(t, want, r.PromptTokenIDs, list)
		require.Zero(t, r.PromptAt, list)
	}
}
