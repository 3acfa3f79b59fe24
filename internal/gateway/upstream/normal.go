package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// normalise rewrites a complete chat completion that differs from OpenAI's form, so that the record and the agent have the same reply, as the
// gateway understands it. All other replies keep their bytes. A reply that cannot be understood is broken.
func (r *Result) normalise(a *dialect.Request) {
	if r.Problem != nil || a.API != reply.Chat || r.Reply.Irregular == "" {
		return
	}
	n := render.Normal{Functions: hasFunctions(a.Body), ID: func(i int) string { return callID(a.Body, i) }}
	said, err := n.Of(r.Raw, r.Reply.Begun, r.Reply.Irregular)
	switch {
	case err != nil:
		r.Problem = &Problem{Class: Retry, Text: fmt.Sprintf("the reply is broken: %s: %s", r.Reply.Irregular, err)}
	case said != nil:
		r.Reply.PromptAt = moved(r.Reply.PromptAt, r.Raw, said)
		r.Reply.FinishReason = n.Finish
		r.Raw, r.Repaired = said, r.Reply.Irregular
	}
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
func hasFunctions(body []byte) bool { return len(rawjson.MemberOf(body, "functions")) > 0 }

// idLength is the length of the ids that the gateway makes: Mistral's templates accept no other.
const idLength = 9

// callID makes the id of a tool call to which the endpoint gives none. It is unique in the conversation, because no two requests of a
// conversation are the same, and a repeated call gets the same one.
func callID(request []byte, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %d", sha256.Sum256(request), n))
	return hex.EncodeToString(sum[:])[:idLength]
}

// maxEmpty is the number of replies to one call that may say nothing before the call has failed. With the pauses between the tries it takes
// about a minute.
const maxEmpty = 8

// noReply is the problem of a complete reply that says nothing.
func noReply(reason string) *Problem {
	return &Problem{Class: Retry, empty: true, Text: fmt.Sprintf("the reply is empty: finish reason %q, but no text, no tool call and no token", reason)}
}

// tooEmpty counts empty replies, and reports whether there were too many.
func (r *retryState) tooEmpty(p *Problem) bool {
	if p.empty {
		r.empty++
	}
	return p.empty && r.empty >= maxEmpty
}

// countsTokens reports whether the endpoint was asked for the number of tokens.
func countsTokens(a *dialect.Request) bool {
	if string(rawjson.MemberOf(a.Body, "stream")) != "true" {
		return true
	}
	return string(rawjson.MemberOf(rawjson.MemberOf(a.Body, dialect.StreamOptions), "include_usage")) == "true"
}
