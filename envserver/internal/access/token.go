package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Scope is what a token lets its bearer do.
type Scope string

const (
	// ScopeClient may start rollouts, and see and end those.
	ScopeClient Scope = "client"
	// ScopeOperator may see and end all rollouts, and use the codec.
	ScopeOperator Scope = "operator"
)

// Token admits a client. Only the digest is known here.
type Token struct {
	// Name tells clients apart: sessions and rollouts of one name are hidden from the others.
	Name   string
	SHA256 [sha256.Size]byte
	Scope  Scope
	// MaxSandbox is what a sandbox of this client may ask for, beside Options.MaxSandbox; zero fields are unbounded.
	MaxSandbox rollout.Resources
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

// CallerOf is the client that a request comes from; one without rights where nothing says who it is.
func CallerOf(ctx context.Context) Token {
	t, _ := ctx.Value(callerKey{}).(Token)
	return t
}

// WithCaller is ctx with the client that a request comes from.
func WithCaller(ctx context.Context, t Token) context.Context {
	return context.WithValue(ctx, callerKey{}, t)
}

// may says whether the bearer may see and end the rollouts of an owner.
func (t Token) may(owner string) bool {
	return t.Scope == ScopeOperator || t.Scope == ScopeClient && t.Name == owner
}
