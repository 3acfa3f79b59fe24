package chat

import "iter"

// API is one of the formats in which models are called; its text is the path below /v1. The zero value is Chat.
type API string

const (
	Chat        API = "chat/completions"
	Completions API = "completions" // of OpenAI too, and older: a prompt in place of messages
	Responses   API = "responses"   // OpenAI's
	Messages    API = "messages"    // Anthropic's
)

// Whole is a reply put together.
type Whole interface {
	JSON() []byte     // as the one object a caller gets that asked for no stream
	Events() []byte   // as a stream of server-sent events
	Tokens() []string // the tokens' strings, as the engine wrote them; nil when it gave none
}

// Assemble puts a reply together, whole or not: raw is a stream of events, or one object already. Only the first choice is
// kept. The result may share raw's memory.
func (a API) Assemble(raw []byte) (Whole, error) {
	switch a {
	case Responses:
		return assembleResponse(raw)
	case Messages:
		return assembleMessage(raw)
	default:
		return assembleCompletion(Completion{legacy: a == Completions}, raw)
	}
}

// Empty is the answer that ends an agent's session without an error: nothing said, and no more to come.
func (a API) Empty(model string) Whole {
	switch a {
	case Responses:
		return emptyResponse(model)
	case Messages:
		return emptyMessage(model)
	default:
		c := emptyCompletion(model)
		c.legacy = a == Completions
		return &c
	}
}

// events are those of a stream, each one's data. Half an event, which a cut left at the end, is none.
func events(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := splitter{raw: raw}
		for data, ok := s.next(); ok; data, ok = s.next() {
			if !yield(flat(data)) {
				return
			}
		}
		if data, ok := s.rest(); ok && balanced(data) {
			yield(flat(data))
		}
	}
}

// balanced says whether there is one value, whole by its brackets and strings.
func balanced(data []byte) bool {
	c := cursor{b: data}
	c.skip()
	return c.end()
}
