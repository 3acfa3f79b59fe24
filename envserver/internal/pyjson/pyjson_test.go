package pyjson_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
)

// The words are those of CPython 3.11's decoder for the same texts.
func TestErrorsAreThoseOfPython(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:              "Expecting value: line 1 column 1 (char 0)",
		`{`:             "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
		`{"a"`:          "Expecting ':' delimiter: line 1 column 5 (char 4)",
		`{"a":`:         "Expecting value: line 1 column 6 (char 5)",
		`{"a":1`:        "Expecting ',' delimiter: line 1 column 7 (char 6)",
		`{"a":1,`:       "Expecting property name enclosed in double quotes: line 1 column 8 (char 7)",
		`{"a":1,}`:      "Expecting property name enclosed in double quotes: line 1 column 8 (char 7)",
		`[1`:            "Expecting ',' delimiter: line 1 column 3 (char 2)",
		`[1,`:           "Expecting value: line 1 column 4 (char 3)",
		`[1,]`:          "Expecting value: line 1 column 4 (char 3)",
		`[1 2]`:         "Expecting ',' delimiter: line 1 column 4 (char 3)",
		`1 2`:           "Extra data: line 1 column 3 (char 2)",
		`01`:            "Extra data: line 1 column 2 (char 1)",
		`1.`:            "Extra data: line 1 column 2 (char 1)",
		`1e`:            "Extra data: line 1 column 2 (char 1)",
		`"abc`:          "Unterminated string starting at: line 1 column 1 (char 0)",
		`"abc\`:         "Unterminated string starting at: line 1 column 1 (char 0)",
		`"a\x"`:         `Invalid \escape: line 1 column 3 (char 2)`,
		`"a\u12"`:       `Invalid \uXXXX escape: line 1 column 4 (char 3)`,
		"\"a\nb\"":      "Invalid control character at: line 1 column 3 (char 2)",
		`nul`:           "Expecting value: line 1 column 1 (char 0)",
		`-`:             "Expecting value: line 1 column 1 (char 0)",
		"\n\n {\"é\":}": "Expecting value: line 3 column 7 (char 8)",
		"\"\xff\"":      "Text is not valid UTF-8: line 1 column 1 (char 0)",
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
	require.NoError(t, pyjson.Check([]byte(`"`+strings.Repeat(`[{,\"`, 50_000)+`"`)), "what stands in a string is text")
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

// FuzzDecode holds the decoder against the standard one: it takes all that is JSON, with the same value, and what it takes
// beyond that is Python's number words.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"type":"step","data":{"x":[1,2.5e3,"é\u00e9"]}}`, `NaN`, `{"a":-Infinity}`, `"\ud83d\ude00"`, `[`, `1e999`, "\"\\ud800\"", `"\u`, `"\u"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := pyjson.Decode(data)
		if err != nil {
			// The standard decoder replaces what is not UTF-8, and nests deeper.
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
