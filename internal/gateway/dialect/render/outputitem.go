package render

import (
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// outputItem is an incomplete item of a response's output, such as a message or a tool call.
type outputItem struct {
	index  int64
	object *rawjson.Object
	texts  []*outputText

	// object is complete
	done bool
}

// outputText is an incomplete text of an item.
type outputText struct {
	responseFlow
	index int64

	// the pieces' text between quotes
	text []byte
}

// responseFlow describes a text that a stream sends in pieces: a member of the item, or of one of its parts.
type responseFlow struct {
	// name of the event of a piece
	event string

	// of a part: the list that has it, and the name of its index in the event
	list, number string

	// the part's type, and the member with the text
	kind, member string
}

func responseFlows() []responseFlow {
	return []responseFlow{
		{"response.output_text.delta", "content", "content_index", "output_text", "text"},
		{"response.refusal.delta", "content", "content_index", "refusal", "refusal"},
		{"response.reasoning_text.delta", "content", "content_index", "reasoning_text", "text"},
		{"response.reasoning_summary_text.delta", "summary", "summary_index", "summary_text", "text"},
		{event: "response.function_call_arguments.delta", member: "arguments"},
		{event: "response.custom_tool_call_input.delta", member: "input"},
	}
}

// add appends a piece to its text.
func (i *outputItem) add(f responseFlow, index int64, piece string) error {
	for _, t := range i.texts {
		if t.responseFlow == f && t.index == index {
			t.text = append(t.text, piece...)
			return nil
		}
	}

	if len(i.texts) == maxParts {
		return errUnreadable
	}

	i.texts = append(i.texts, &outputText{f, index, []byte(piece)})

	return nil
}

// bytes returns the item with the texts so far.
func (i *outputItem) bytes() []byte {
	if i.done {
		return i.object.Bytes()
	}

	lists := map[string][]byte{}

	for _, t := range i.texts {
		if t.list == "" {
			i.object.Set(t.member, rawjson.AppendString(nil, t.text))
			continue
		}

		part := append(rawjson.AppendString([]byte(`{"type":`), []byte(t.kind)), `,"`+t.member+`":`...)

		part = append(rawjson.AppendString(part, t.text), '}')
		if before := lists[t.list]; before != nil {
			part = append(append(before, ','), part...)
		}

		lists[t.list] = part
		i.object.Set(t.list, rawjson.AppendList(nil, part))
	}

	return i.object.Bytes()
}

// NextNumber returns the next sequence number of a stream of Responses.
func NextNumber(stream []byte) int64 {
	next := int64(0)

	for data := range reply.SSEEvents(stream) {
		c := rawjson.Cursor{Src: rawjson.MemberOf(data, "sequence_number")}
		if n := c.Integer(); c.AtEnd() {
			next = n
		}

		next++
	}

	return next
}
