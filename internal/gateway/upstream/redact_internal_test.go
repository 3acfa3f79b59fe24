package upstream

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
)

// The key of an endpoint is in no text of the endpoint, however short it is and also in base64, at any
// position of the encoded text.
func TestKeysAreRemoved(t *testing.T) {
	t.Parallel()

	for _, key := range []string{"abc123", "tok-9f/2+x", "a-key-of-many-characters", "s3cr3t?>~~"} {
		texts := []string{"wrong key " + key + "!"}

		for _, before := range []string{"", "x", "xy", "user:"} {
			for _, after := range []string{"", "y", "yz"} {
				texts = append(texts, "Basic "+base64.StdEncoding.EncodeToString([]byte(before+key+after)),
					"Basic "+base64.URLEncoding.EncodeToString([]byte(before+key+after)))
			}
		}

		for _, text := range texts {
			require.Contains(t, clean(text, key), redacted, "%s in %s", key, text)
			require.Contains(t, string(cleanBytes([]byte(text), key)), redacted, "%s in %s", key, text)
			require.NotContains(t, clean(text, key), key)
		}
	}

	require.Equal(t, "wrong key [redacted]", clean("wrong key hunter", "hunter"))
	require.Equal(t, "a hunter", string(cleanBytes([]byte("a hunter"), "hunter")), "an ordinary word of a reply stays")

	for _, placeholder := range []string{"EMPTY", "intercepted", "none"} {
		require.Equal(t, "it was "+placeholder, clean("it was "+placeholder, placeholder))
	}
}

func BenchmarkCleanReply(b *testing.B) {
	text := make([]byte, 64<<10)
	for b.Loop() {
		cleanBytes(text, "a-key-of-many-characters")
	}
}
