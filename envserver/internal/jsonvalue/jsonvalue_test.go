package jsonvalue_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
)

func TestErrorTextsAndPositions(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		``:               "there is no value (character 0)",
		`{"a":`:          "unexpected EOF (character 5)",
		`{"a":1,}`:       "(character 6)",
		`[1,]`:           "(character 2)",
		`[1 2]`:          "(character 3)",
		`1 2`:            "text after the value (character 2)",
		`01`:             "text after the value (character 1)",
		`"abc`:           "unexpected EOF (character 4)",
		"\"a\nb\"":       "(character 2)",
		`NaN`:            "(character 0)",
		`[1e999]`:        "number out of range (character 6)",
		`{"a":Infinity}`: "(character 5)",
		"\n\n {\"é\":}":  "(character 8)",
		"\"\xff\"":       "text is not UTF-8 (character 0)",
	} {
		_, err := jsonvalue.Decode([]byte(text))

		var syntax *jsonvalue.SyntaxError
		require.ErrorAs(t, err, &syntax, text)
		require.Contains(t, syntax.Error(), want, text)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]any{
		`null`: nil, ` true `: true, `false`: false, `-0`: json.Number("-0"),
		`12345678901234567890`: json.Number("12345678901234567890"), `1.50e+2`: json.Number("1.50e+2"),
		`"\ud83d\ude00\u00e9\/\n"`: "😀é/\n", `"\ud83d"`: "\ufffd", `"\ud83d\u0041"`: "\ufffdA",
		`{"a":[],"a":[{}]}`: map[string]any{"a": []any{map[string]any{}}},
	} {
		got, err := jsonvalue.Decode([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestDepthIsBounded(t *testing.T) {
	t.Parallel()

	_, err := jsonvalue.Decode([]byte(strings.Repeat("[", 1_000_000)))
	require.ErrorContains(t, err, "nested more than 500 deep")
}

func TestValuesAreBounded(t *testing.T) {
	t.Parallel()

	fits := "[" + strings.Repeat("1,", 99_998) + "1]"
	_, err := jsonvalue.Decode([]byte(fits))
	require.NoError(t, err)

	for _, text := range []string{"[" + strings.Repeat("1,", 99_999) + "1]", strings.Repeat("[],", 100_000)} {
		_, err := jsonvalue.Decode([]byte(text))
		require.ErrorContains(t, err, "more than 100000 values")
	}

	require.NoError(
		t,
		jsonvalue.Check([]byte(`"`+strings.Repeat(`[{,\"`, 50_000)+`"`)),
		"brackets and commas in a string do not count",
	)
}

func TestEncode(t *testing.T) {
	t.Parallel()

	v, err := jsonvalue.Decode([]byte(`{"a": [1.0, "<é>"], "b": null}`))
	require.NoError(t, err)
	out, err := jsonvalue.Encode(v)
	require.NoError(t, err)
	require.Equal(t, `{"a":[1.0,"<é>"],"b":null}`, string(out))
}

// FuzzDecode compares the decoder with the standard one: both accept the same texts, except beyond the bounds, for
// invalid UTF-8 and for numbers out of range, and read the same values.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"type":"step","data":{"x":[1,2.5e3,"é\u00e9"]}}`, `NaN`, `{"a":1,"a":{"b":2}}`, `"\ud83d\ude00"`, `[`, `1e999`, "\"\\ud800\"", `"\u`, `"\u"`} {
		f.Add([]byte(s))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := jsonvalue.Decode(data)
		if err != nil {
			ours := strings.Contains(err.Error(), "UTF-8") || strings.Contains(err.Error(), "more than") ||
				strings.Contains(err.Error(), "out of range")
			require.Falsef(t, json.Valid(data) && !ours, "valid JSON refused: %v", err)

			return
		}

		require.True(t, json.Valid(data), "accepted")

		standard := json.NewDecoder(bytes.NewReader(data))
		standard.UseNumber()

		var want any
		require.NoError(t, standard.Decode(&want))
		require.Equal(t, want, got)
	})
}
