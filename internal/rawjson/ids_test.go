package rawjson_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Lists of ids of every length, with and without spaces, are read as written, and their span is reported.
func TestIDsAreReadAsWritten(t *testing.T) {
	t.Parallel()

	random := rand.New(rand.NewPCG(1, 2))
	edges := []int32{
		0,
		1,
		9,
		10,
		999999,
		1000000,
		9999999,
		10000000,
		99999999,
		100000000,
		999999999,
		1000000000,
		math.MaxInt32,
	}

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
			require.Equal(t, rawjson.Span{
				Start:  len(`{"prompt_token_ids":`),
				End:    len(event) - 1,
				Spaced: spaced && n > 1,
			}, r.PromptAt, "%s", event)
		}
	}
}

// A value that is not a plain list of ids is either refused, or read without a span.
func TestUnusualIDs(t *testing.T) {
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

// A long list with one changed byte is read as a list of decimal numbers, or refused if it is not one. If it has a
// span, it equals what AppendIDs writes.
func TestLongListsOfIDs(t *testing.T) {
	t.Parallel()

	random := rand.New(rand.NewPCG(1, 2))

	var ids []int32
	for range 1000 {
		ids = append(ids, random.Int32N(1+random.Int32N(200000)))
	}

	for round := range 3000 {
		length := 1 + random.IntN(len(ids))

		list := rawjson.AppendIDs(nil, ids[:length], false)
		if round%10 == 1 {
			c := rawjson.Cursor{Src: list}
			got, span := c.IDs(nil)
			require.Equal(t, ids[:length], got)
			require.Equal(t, rawjson.Span{End: len(list)}, span)
		}

		if round%10 != 0 {
			list[1+random.IntN(len(list)-2)] = "0123456789,,  -.x]"[random.IntN(18)]
		}
		// a very long number
		if round%7 == 0 {
			at := 1 + random.IntN(len(list)-2)
			list = slices.Concat(list[:at], bytes.Repeat([]byte("1"), random.IntN(2*len(list))), list[at:])
		}

		c := rawjson.Cursor{Src: slices.Concat(list, []byte(` ,"more":12345678`))}
		got, span := c.IDs(nil)
		want, ok := readIDs(list[:bytes.IndexByte(list, ']')+1])
		require.Equal(t, ok, !c.Bad, "%s", list)

		if !ok {
			continue
		}

		require.Equal(t, want, got, "%s", list)

		if span != (rawjson.Span{}) {
			require.Equal(t, string(list[span.Start:span.End]), string(rawjson.AppendIDs(nil, got, span.Spaced)))
		}
	}
}

// readIDs reads a list in brackets with the standard library.
func readIDs(list []byte) (ids []int32, ok bool) {
	for number := range strings.SplitSeq(string(list[1:len(list)-1]), ",") {
		if number = strings.Trim(number, " "); strings.Trim(number, "0123456789") != "" || len(number) > 10 {
			return nil, false
		}

		id, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return nil, false
		}

		ids = append(ids, int32(id))
	}

	return ids, true
}
