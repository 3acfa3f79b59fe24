package rawjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Names without escapes are quoted in a shorter way: it writes what encoding/json writes.
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
