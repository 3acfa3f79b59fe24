package dialect

import (
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// PromptIDs is a prompt that a chat completion sends as ids. Tools, parsers and stop texts stay those of the messages.
type PromptIDs struct {
	// IDs: nil: none are sent.
	IDs []int32
	// By is the member of the request that takes them.
	By rollout.PromptMember
}

// Wire returns the body of the call on the wire: with the ids of its prompt, if it has them, and without the routed
// experts that are recorded already.
func (a *Request) Wire() ([]byte, error) {
	byIDs := a.Prompt.IDs != nil && a.API == reply.Chat
	if !byIDs && a.Experts.From == 0 {
		return a.Body, nil
	}

	o, err := rawjson.ParseObject(a.Body)
	if err != nil {
		return nil, err
	}

	a.Experts.setStart(o)

	if !byIDs {
		return o.Bytes(), nil
	}

	switch a.Prompt.By {
	case rollout.PromptInputIDs:
		o.Set(string(a.Prompt.By), rawjson.AppendIDs(a.Prompt.room(), a.Prompt.IDs, false))
	case rollout.PromptKVTransfer:
		value := append(a.Prompt.room(), `{"prompt_token_ids":`...)
		o.Set(string(a.Prompt.By), append(rawjson.AppendIDs(value, a.Prompt.IDs, false), '}'))
	}

	return o.Bytes(), nil
}

// room is an empty slice with room for the ids in JSON.
func (p PromptIDs) room() []byte {
	const of, around = len("123456,"), 64

	return make([]byte, 0, of*len(p.IDs)+around)
}
