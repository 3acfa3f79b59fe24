package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Scope is the set of permissions of a token.
type Scope string

const (
	// ScopeClient may start rollouts, and see and end its own rollouts.
	ScopeClient Scope = "client"
	// ScopeOperator may see and end all rollouts, and use the codec.
	ScopeOperator Scope = "operator"
)

// Token admits a client. The server holds only the digest of its text.
type Token struct {
	// Name identifies the client: sessions and rollouts of one name are hidden from the others.
	Name   string
	SHA256 [sha256.Size]byte
	Scope  Scope
	// MaxSandbox bounds the sandboxes of this client, in addition to Options.MaxSandbox; zero fields are unbounded.
	MaxSandbox rollout.Resources
	// Share is the part of the server's sessions that this client may have; 0: Options.TokenShare.
	Share float64
}

// PlainToken is an operator's token without a configured name; its name is made from its digest.
func PlainToken(text string) Token {
	sum := sha256.Sum256([]byte(text))
	return Token{Name: "token-" + hex.EncodeToString(sum[:6]), SHA256: sum, Scope: ScopeOperator}
}

// FindToken returns the token with a text. It compares the digests of all tokens, so that its run time
// discloses nothing about a token, not even its length.
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

// CallerOf returns the client that a request comes from; without one in the context, a client without permissions.
func CallerOf(ctx context.Context) Token {
	t, _ := ctx.Value(callerKey{}).(Token)
	return t
}

// WithCaller returns ctx with the client that a request comes from.
func WithCaller(ctx context.Context, t Token) context.Context {
	return context.WithValue(ctx, callerKey{}, t)
}

// may reports whether the bearer may see and end the rollouts of an owner.
func (t Token) may(owner string) bool {
	return t.Scope == ScopeOperator || t.Scope == ScopeClient && t.Name == owner
}
