package render

import (
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

// Whole is a reply put together.
type Whole interface {
	JSON() []byte     // as the one object a caller gets that asked for no stream
	Events() []byte   // as a stream of server-sent events
	Tokens() []string // the tokens' strings, as the engine wrote them; nil when it gave none
}

// Assemble puts a reply together, whole or not: raw is a stream of events, or one object already. Only the first choice is
// kept. The result may share raw's memory.
func Assemble(api reply.API, raw []byte) (Whole, error) {
	switch api {
	case reply.Responses:
		return assembleResponse(raw)
	case reply.Messages:
		return assembleMessage(raw)
	default:
		return assembleCompletion(Completion{legacy: api == reply.Completions}, raw)
	}
}

// Message is a whole message of the Messages API, given as its object.
func Message(object []byte) Whole { return &message{object} }

// Response is a whole response of the Responses API, given as its object.
func Response(object []byte) Whole { return &response{object} }

// Empty is the answer that ends an agent's session without an error: nothing said, and no more to come.
func Empty(api reply.API, model string) Whole {
	switch api {
	case reply.Responses:
		return emptyResponse(model)
	case reply.Messages:
		return emptyMessage(model)
	default:
		c := emptyCompletion(model)
		c.legacy = api == reply.Completions
		return &c
	}
}
