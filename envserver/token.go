package envserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
)

// Scope is what a token lets its bearer do.
type Scope string

const (
	// ScopeClient may do all that OpenEnv offers, and follow rollouts whose id it knows.
	ScopeClient Scope = "client"
	// ScopeOperator may list all rollouts, too.
	ScopeOperator Scope = "operator"
)

// Token admits a client. Only the digest is known here.
type Token struct {
	// Name tells clients apart: sessions of one name are of no use to another.
	Name   string
	SHA256 [sha256.Size]byte
	Scope  Scope
}

// PlainToken is the operator's token of a server that knows but few; its name is made of its digest.
func PlainToken(text string) Token {
	sum := sha256.Sum256([]byte(text))
	return Token{Name: "token-" + hex.EncodeToString(sum[:6]), SHA256: sum, Scope: ScopeOperator}
}

// FindToken returns the token whose text is given. It compares digests, all of them, so that the time taken says nothing about
// a token, not even its length.
func FindToken(all []Token, text string) (Token, bool) {
	got := sha256.Sum256([]byte(text))
	found := -1
	for i := range all {
		same := subtle.ConstantTimeCompare(got[:], all[i].SHA256[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if text == "" || found < 0 {
		return Token{}, false
	}
	return all[found], true
}

type callerKey struct{}

// callerOf is the client that a request comes from.
func callerOf(ctx context.Context) Token {
	t, ok := ctx.Value(callerKey{}).(Token)
	if !ok {
		return Token{Scope: ScopeOperator} // an open server: whoever reaches it is its operator
	}
	return t
}
