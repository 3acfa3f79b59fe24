package dialect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Normalise returns a complete chat completion in OpenAI's form, and updates what was read from it. It
// returns nil if the reply has this form, or is one of another API. The error says that the reply cannot be
// understood.
func (a *Request) Normalise(raw []byte, r *reply.Reply) ([]byte, error) {
	if a.API != reply.Chat || r.Irregular == "" {
		return nil, nil
	}

	n := render.Normal{Functions: a.hasFunctions(), ID: a.callID}

	normal, err := n.Of(raw, r.Prelude, r.Irregular)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Irregular, err)
	}

	if normal != nil {
		r.FinishReason, r.PromptAt = n.Finish, moved(r.PromptAt, raw, normal)
	}

	return normal, nil
}

// moved returns the position of the prompt's ids in the rewritten reply.
func moved(at rawjson.Span, from, to []byte) rawjson.Span {
	if at.End == 0 {
		return at
	}

	ids := from[at.Start:at.End]

	start := bytes.Index(to, ids)
	if start < 0 {
		return rawjson.Span{}
	}

	return rawjson.Span{Start: start, End: start + len(ids), Spaced: at.Spaced}
}

// hasFunctions reports whether the request has functions, as before tools.
func (a *Request) hasFunctions() bool { return len(rawjson.MemberOf(a.Body, "functions")) > 0 }

// idLength is the length of the ids that the gateway makes, in hex digits: Mistral's templates accept no other length.
const idLength = 9

// callID makes the id of the n-th tool call of a reply if the endpoint gives none. It is unique in the
// conversation, because each request of a conversation is longer than the one before, and a repeated call
// gets the same one.
func (a *Request) callID(n int) string {
	request := sha256.Sum256(a.Body)
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %d", request, n))

	return hex.EncodeToString(sum[:])[:idLength]
}

// CountsTokens reports whether the endpoint is asked for the number of tokens.
func (a *Request) CountsTokens() bool {
	if !a.Streams() {
		return true
	}

	return string(rawjson.MemberOf(rawjson.MemberOf(a.Body, StreamOptions), "include_usage")) == "true"
}

// Streams reports whether the endpoint is asked for a stream.
func (a *Request) Streams() bool { return string(rawjson.MemberOf(a.Body, "stream")) == "true" }
