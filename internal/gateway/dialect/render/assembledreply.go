package render

import (
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

// AssembledReply is a reply that Assemble has put together, or one that the gateway makes.
type AssembledReply interface {
	// as one object
	JSON() []byte
	// as a stream of server-sent events
	Events() []byte
	// the tokens' strings, as the engine wrote them; nil: none
	Tokens() []string
}

// Assemble assembles a reply, complete or not: raw is a stream of events, or one object. It keeps only the
// first choice. The result may share raw's memory.
func Assemble(api reply.API, raw []byte) (AssembledReply, error) {
	switch api {
	case reply.Responses:
		return assembleResponse(raw)
	case reply.Messages:
		return assembleMessage(raw)
	default:
		return assembleCompletion(Completion{legacy: api == reply.Completions}, raw)
	}
}

// Message returns a reply of the Messages API, given its object.
func Message(object []byte) AssembledReply { return &message{object} }

// Response returns a reply of the Responses API, given its object.
func Response(object []byte) AssembledReply { return &response{object} }
