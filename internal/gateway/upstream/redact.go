package upstream

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"unicode"
)

const redacted = "[redacted]"

const (
	// minSecret is the length from which a key of letters only is removed from replies. A shorter one may
	// be an ordinary word; replacing it would change the model's words.
	minSecret = 12
	// minRandom is the length from which a key with other characters than letters is removed from replies.
	minRandom = 6
	// minKey is the length from which a key is removed from errors. A shorter one can be found by trying all.
	minKey = 4
)

// placeholders are the keys of engines that need none, in lower case.
var placeholders = []string{
	"intercepted", "empty", "none", "null", "dummy", "placeholder", "unused", "not-needed", "no-key",
	"sk-no-key-required", "token", "local", "test",
}

// cleanBytes removes the key from an endpoint's reply, also in base64. It returns b itself if the key is not in it.
func cleanBytes(b []byte, key string) []byte {
	word := !strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsLetter(r) })
	if len(key) < minRandom || word && len(key) < minSecret {
		return b
	}

	return remove(b, key)
}

// cleanError is cleanBytes for errors, which have no words of the model.
func cleanError(b []byte, key string) []byte {
	if len(key) < minKey {
		return b
	}

	return remove(b, key)
}

func clean(s, key string) string { return string(cleanError([]byte(s), key)) }

func remove(b []byte, key string) []byte {
	if slices.Contains(placeholders, strings.ToLower(key)) {
		return b
	}

	for _, form := range forms(key) {
		if bytes.Contains(b, form) {
			b = bytes.ReplaceAll(b, form, []byte(redacted))
		}
	}

	return b
}

// forms are the key, and its base64 in both alphabets. A base64 text has a key in one of three forms, by
// the number of bytes before the key; the characters that depend on the bytes beside it are left out.
func forms(key string) [][]byte {
	all := [][]byte{[]byte(key)}

	for before := range 3 {
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			bits, first := 8*(before+len(key)), (8*before+5)/6

			form := []byte(alphabet.EncodeToString(append(make([]byte, before), key...))[first : bits/6])
			if !slices.ContainsFunc(all, func(known []byte) bool { return bytes.Equal(known, form) }) {
				all = append(all, form)
			}
		}
	}

	return all
}
