package formats

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Request is the request of an agent to a model.
type Request struct {
	// in the order of the conversation; never nil
	Messages []json.RawMessage

	// as the agent declared them; nil: none
	Tools []json.RawMessage

	// size of the messages, in bytes
	Size int
}

// RequestOf reads the request of a turn, of any model API. A system text beside the messages becomes the first message.
func RequestOf(t *rollout.Turn) Request {
	a := Request{Messages: []json.RawMessage{}}

	o, err := rawjson.ParseObject(t.Request)
	if err != nil {
		return a
	}

	for _, key := range []string{"system", "instructions"} {
		if v, ok := o.Get(key); ok && string(v) != "null" {
			a.Messages = append(a.Messages, message("system", v))
		}
	}

	for _, key := range []string{"messages", "input"} {
		v, ok := o.Get(key)
		if !ok {
			continue
		}

		if list := objectsOf(v); list != nil {
			a.Messages = append(a.Messages, list...)
		} else { // plain text
			a.Messages = append(a.Messages, message("user", v))
		}
	}

	if tools := objectsOf(o.Or("tools", "null")); len(tools) > 0 {
		a.Tools = tools
	}

	for _, m := range a.Messages {
		a.Size += len(m)
	}

	return a
}

// objectsOf returns the elements of a list that are objects, since clients accept no others; nil: not a list.
func objectsOf(list json.RawMessage) []json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(list, &all) != nil || all == nil {
		return nil
	}

	out := []json.RawMessage{}

	for _, v := range all {
		if rawjson.IsObject(v) {
			out = append(out, v)
		}
	}

	return out
}

// message returns a message with a role and the content unchanged.
func message(role string, content json.RawMessage) json.RawMessage {
	o := rawjson.NewObject()
	o.Set("role", rawjson.Quote(role))
	o.Set("content", content)

	return o.Bytes()
}
