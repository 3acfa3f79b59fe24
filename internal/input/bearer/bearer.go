// Package bearer reads the bearer tokens of HTTP requests.
package bearer

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Token is the token of the header `Authorization: Bearer TOKEN`; "": the request has none. The name of the scheme has
// no case (RFC 9110, section 11.1).
func Token(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}

	return strings.TrimSpace(token)
}

// Has reports whether a request has one of the tokens. The time that it takes says nothing about them.
func Has(r *http.Request, tokens ...string) bool {
	given, found := sha256.Sum256([]byte(Token(r))), 0

	for _, token := range tokens {
		want := sha256.Sum256([]byte(token))
		found |= subtle.ConstantTimeCompare(given[:], want[:])
	}

	return found == 1 && Token(r) != ""
}
