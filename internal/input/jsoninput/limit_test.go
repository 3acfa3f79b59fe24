package jsoninput_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

func TestReader(t *testing.T) {
	t.Parallel()

	limits := jsoninput.Limits{Bytes: 100, Elements: 10, Depth: 3}

	for name, c := range map[string]struct{ text, want string }{
		"within":                 {`{"a":[1,2,{"b":"c"}]}`, ""},
		"brackets in a string":   {`["[[[[[[,,,,,,,,,,,,,,"]`, ""},
		"a quote in a string":    {`["\"[[[[[[,,,,,,,,,,,,,,\\"]`, ""},
		"elements of an array":   {`[{},{},{},{},{},{}]`, "more than 10 elements"},
		"numbers of an array":    {`[1,2,3,4,5,6,7,8,9,10,11]`, "more than 10 elements"},
		"depth":                  {`[[[[]]]]`, "more than 3 levels"},
		"bytes":                  {`"` + strings.Repeat("x", 100) + `"`, "more than 100 bytes"},
		"several texts together": {strings.Repeat("[] ", 11), "more than 10 elements"},
		"no JSON":                {strings.Repeat("]", 50), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
				got, err := io.ReadAll(jsoninput.NewReader(r, limits))
				require.True(t, strings.HasPrefix(c.text, string(got)))

				if c.want == "" {
					require.NoError(t, err)
					require.Equal(t, c.text, string(got))

					continue
				}

				var limit *jsoninput.Error
				require.ErrorAs(t, err, &limit)
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// A decoder reports the exceeded limit, not a syntax error of the truncated text.
func TestDecoderReportsTheBound(t *testing.T) {
	t.Parallel()

	var out any

	r := jsoninput.NewReader(
		strings.NewReader("["+strings.Repeat("{},", 1<<20)+"{}]"),
		jsoninput.Limits{Elements: 1000},
	)

	var limit *jsoninput.Error
	require.ErrorAs(t, json.NewDecoder(r).Decode(&out), &limit)
}
