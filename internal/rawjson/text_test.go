package rawjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Quote has a fast path for names without escapes. It writes the same bytes as encoding/json.
func TestQuote(t *testing.T) {
	t.Parallel()

	texts := []string{"", "max_tokens", strings.Repeat("x", 1000), "ä€", "\u2028", "\xff", "a\x00b"}
	for ch := range 256 {
		texts = append(texts, string([]byte{'a', byte(ch), 'b'}))
	}

	for _, text := range texts {
		want, err := json.Marshal(text)
		require.NoError(t, err)
		require.Equal(t, string(want), string(rawjson.Quote(text)))
		require.Equal(t, "["+string(want), string(rawjson.AppendQuote([]byte("["), text)))
	}
}

// Plain text is valid JSON, and most values of requests are plain.
func TestIsPlain(t *testing.T) {
	t.Parallel()

	for _, plain := range []string{"true", "false", "null", "0", "4096", `""`, `"m"`, `"org/model-1.5"`} {
		require.True(t, rawjson.IsPlain([]byte(plain)), plain)
	}

	values := []string{
		"",
		`"`,
		"-",
		"01",
		"00",
		"1.",
		"nul",
		"True",
		`"a"b"`,
		`"\"`,
		"\"\x01\"",
		`"a" "b"`,
		"[1]",
		"{}",
	}

	for a := range 256 {
		for b := range 256 {
			values = append(values, string([]byte{byte(a), byte(b)}), string([]byte{'"', byte(a), byte(b), '"'}))
		}
	}

	for _, value := range values {
		require.True(t, json.Valid([]byte(value)) || !rawjson.IsPlain([]byte(value)), "%q", value)
	}
}
