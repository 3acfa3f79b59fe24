package upstream

import "bytes"

// minSecret is the length below which a key is taken for a placeholder ("EMPTY", "none"): such words stand in ordinary
// text, and replacing them there would change what a model said.
const minSecret = 12

const redacted = "[redacted]"

// cleanBytes takes the key out of what an upstream said. Without the key in it, it is b itself; with it, never as long.
func cleanBytes(b []byte, key string) []byte {
	if len(key) < minSecret || !bytes.Contains(b, []byte(key)) {
		return b
	}
	return bytes.ReplaceAll(b, []byte(key), []byte(redacted))
}

func clean(s, key string) string { return string(cleanBytes([]byte(s), key)) }
