package upstream

import "bytes"

// minSecret is the length below which a key is taken for a placeholder ("EMPTY", "none"). Such words occur in ordinary text; replacing
// them would change the model's words.
const minSecret = 12

const redacted = "[redacted]"

// cleanBytes removes the key from an upstream's answer. It returns b itself if the key is not in it, else a shorter slice.
func cleanBytes(b []byte, key string) []byte {
	if len(key) < minSecret || !bytes.Contains(b, []byte(key)) {
		return b
	}
	return bytes.ReplaceAll(b, []byte(key), []byte(redacted))
}

func clean(s, key string) string { return string(cleanBytes([]byte(s), key)) }
