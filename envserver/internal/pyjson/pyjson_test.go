package pyjson_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
)

func TestErrorTextsAndPositions(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		``:              "expected a value (character 0)",
		`{`:             "expected a name in double quotes (character 1)",
		`{"a"`:          "expected ':' (character 4)",
		`{"a":`:         "expected a value (character 5)",
		`{"a":1`:        "expected ',' or '}' (character 6)",
		`{"a":1,`:       "expected a name in double quotes (character 7)",
		`{"a":1,}`:      "expected a name in double quotes (character 7)",
		`[1`:            "expected ',' or ']' (character 2)",
		`[1,`:           "expected a value (character 3)",
		`[1,]`:          "expected a value (character 3)",
		`[1 2]`:         "expected ',' or ']' (character 3)",
		`1 2`:           "text after the value (character 2)",
		`01`:            "text after the value (character 1)",
		`1.`:            "text after the value (character 1)",
		`1e`:            "text after the value (character 1)",
		`"abc`:          "string without an end (character 0)",
		`"abc\`:         "string without an end (character 0)",
		`"a\x"`:         `unknown escape (character 2)`,
		`"a\u12"`:       `\u without four hexadecimal digits (character 3)`,
		"\"a\nb\"":      "control character in a string (character 2)",
		`nul`:           "expected a value (character 0)",
		`-`:             "expected a value (character 0)",
		"\n\n {\"é\":}": "expected a value (character 8)",
		"\"\xff\"":      "text is not UTF-8 (character 0)",
	} {
		_, err := pyjson.Decode([]byte(text))

		var syntax *pyjson.SyntaxError
		require.ErrorAs(t, err, &syntax, text)
		require.Equal(t, want, syntax.Error(), text)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]any{
		`null`: nil, ` true `: true, `false`: false, `-0`: json.Number("-0"),
		`12345678901234567890`: json.Number("12345678901234567890"), `1.50e+2`: json.Number("1.50e+2"),
		`Infinity`: math.Inf(1), `-Infinity`: math.Inf(-1), `1e999`: math.Inf(1), `-1e999`: math.Inf(-1),
		`"\ud83d\ude00\u00e9\/\n"`: "😀é/\n", `"\ud83d"`: "\ufffd", `"\ud83d\u0041"`: "\ufffdA",
		`{"a":[],"a":[{}]}`: map[string]any{"a": []any{map[string]any{}}},
	} {
		got, err := pyjson.Decode([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}

	nan, err := pyjson.Decode([]byte(`NaN`))
	require.NoError(t, err)
	require.True(t, math.IsNaN(nan.(float64)))
}

func TestDepthIsBounded(t *testing.T) {
	t.Parallel()

	_, err := pyjson.Decode([]byte(strings.Repeat("[", 1_000_000)))
	require.ErrorContains(t, err, "nested more than 500 deep")
}

func TestValuesAreBounded(t *testing.T) {
	t.Parallel()

	fits := "[" + strings.Repeat("1,", 99_998) + "1]"
	_, err := pyjson.Decode([]byte(fits))
	require.NoError(t, err)

	for _, text := range []string{"[" + strings.Repeat("1,", 99_999) + "1]", strings.Repeat("[],", 100_000)} {
		_, err := pyjson.Decode([]byte(text))
		require.ErrorContains(t, err, "more than 100000 values")
	}

	require.NoError(
		t,
		pyjson.Check([]byte(`"`+strings.Repeat(`[{,\"`, 50_000)+`"`)),
		"brackets and commas in a string do not count",
	)
}

func TestEncode(t *testing.T) {
	t.Parallel()

	v, err := pyjson.Decode([]byte(`{"a": [NaN, 1e999, 1.0, "<é>"], "b": null}`))
	require.NoError(t, err)
	_, err = pyjson.Encode(v)
	require.Error(t, err, "JSON has no NaN")
	out, err := pyjson.Encode(pyjson.Plain(v))
	require.NoError(t, err)
	require.Equal(t, `{"a":[null,null,1.0,"<é>"],"b":null}`, string(out))
}

// FuzzDecode compares the decoder with the standard one: it accepts all JSON, and additionally only
// Python's NaN and Infinity.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"type":"step","data":{"x":[1,2.5e3,"é\u00e9"]}}`, `NaN`, `{"a":-Infinity}`, `"\ud83d\ude00"`, `[`, `1e999`, "\"\\ud800\"", `"\u`, `"\u"`} {
		f.Add([]byte(s))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := pyjson.Decode(data)
		if err != nil {
			// The standard decoder accepts invalid UTF-8 and deeper nesting.
			ours := strings.Contains(err.Error(), "UTF-8") || strings.Contains(err.Error(), "more than")
			require.Falsef(t, json.Valid(data) && !ours, "valid JSON refused: %v", err)

			return
		}

		encoded, err := pyjson.Encode(pyjson.Plain(got))
		require.NoError(t, err)
		again, err := pyjson.Decode(encoded)
		require.NoError(t, err)
		require.Equal(t, pyjson.Plain(got), again)

		if !json.Valid(data) {
			require.Regexp(t, `NaN|Infinity`, string(data))
		}
	})
}
