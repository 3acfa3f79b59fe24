package experts_test

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/experts"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// file is a file of numpy with that header.
func file(header, data string) string {
	mark := "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(header))))

	return base64.StdEncoding.EncodeToString([]byte(mark + header + data))
}

func plain(numbers ...int32) string {
	var raw []byte
	for _, n := range numbers {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(n))
	}

	return base64.StdEncoding.EncodeToString(raw)
}

const header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 1), }   \n"

// Both engines' forms are read, and numbers are kept in as few bytes as the largest needs.
func TestDecode(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		text        string
		rows, width int
		want        experts.Rows
	}{
		"array": {file(header, "\x01\x02\x03\xff"), 7, 0, experts.Rows{
			Count: 2, Width: 2, Layers: 2, TopK: 1, Type: rollout.ExpertUint8, Data: []byte{1, 2, 3, 255},
		}},
		"array of 16 bits": {file(strings.Replace(header, "|u1", "<u2", 1), "\x01\x00\x02\x00\x03\x00\x00\x01"), 2, 2, experts.Rows{
			Count: 2, Width: 2, Layers: 2, TopK: 1, Type: rollout.ExpertUint16, Data: []byte{1, 0, 2, 0, 3, 0, 0, 1},
		}},
		"array of 32 bits": {file(strings.Replace(header, "|u1", "<i4", 1), "\x01\x00\x00\x00"+strings.Repeat("\x00", 12)), 2, 0, experts.Rows{
			Count: 2, Width: 2, Layers: 2, TopK: 1, Type: rollout.ExpertUint8, Data: []byte{1, 0, 0, 0},
		}},
		"numbers of known rows":  {plain(1, 2, 3, 4, 5, 6), 2, 0, experts.Rows{Count: 2, Width: 3, Type: rollout.ExpertUint8, Data: []byte{1, 2, 3, 4, 5, 6}}},
		"numbers of known width": {plain(1, 2, 3, 300), 9, 2, experts.Rows{Count: 2, Width: 2, Type: rollout.ExpertUint16, Data: []byte{1, 0, 2, 0, 3, 0, 44, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := experts.Decode([]byte(c.text), c.rows, c.width)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		text        string
		rows, width int
		want        string
	}{
		"no base64":              {"?", 1, 0, "not base64"},
		"nothing":                {"", 1, 0, "no list of numbers"},
		"half a number":          {"AAA=", 1, 0, "no list of numbers"},
		"rows of unequal length": {plain(1, 2, 3), 2, 0, "not those of 2 tokens"},
		"another width":          {plain(1, 2, 3), 1, 2, "no rows of 2"},
		"a negative number":      {plain(1, -1), 2, 0, "below 65536"},
		"a large number":         {plain(1, 1<<16), 2, 0, "below 65536"},
		"an array cut off":       {file(header, "\x01\x02\x03"), 2, 0, "an array of 2 rows of 2 experts has 3 bytes"},
		"a header cut off":       {file(header, "")[:16], 2, 0, "cut off"},
		"objects":                {file(strings.Replace(header, "|u1", "|O", 1), "\x01\x02\x03\xff"), 2, 0, "not one of rows"},
		"two dimensions":         {file(strings.Replace(header, ", 1)", ")", 1), "\x01\x02\x03\xff"), 2, 0, "not one of rows"},
		"another order":          {file(strings.Replace(header, "False", "True", 1), "\x01\x02\x03\xff"), 2, 0, "not one of rows"},
		"an array of a width":    {file(header, "\x01\x02\x03\xff"), 2, 3, "a row has 2 experts"},
		"no experts":             {file(strings.Replace(header, ", 1)", ", 0)", 1), ""), 2, 0, "must have 1 to 65536 experts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := experts.Decode([]byte(c.text), c.rows, c.width)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Whatever an endpoint sends, rows are whole and no larger than what it sent.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{file(header, "\x01\x02\x03\xff"), plain(1, 2, 300, 4), "", "AAAA", file(header, "")} {
		f.Add([]byte(text), 2, 0)
		f.Add([]byte(text), 1, 2)
	}

	f.Fuzz(func(t *testing.T, text []byte, rows, width int) {
		got, err := experts.Decode(text, rows, width)
		if err != nil {
			return
		}

		require.Positive(t, got.Width)
		require.Len(t, got.Data, got.Count*got.Width*got.Type.Size())
		require.LessOrEqual(t, len(got.Data), len(text))
		require.True(t, got.Layers == 0 || got.Layers*got.TopK == got.Width)

		if got.Count > 0 {
			require.Len(t, got.From(1).Data, (got.Count-1)*got.Width*got.Type.Size())
		}
	})
}
