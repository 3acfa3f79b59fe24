package render

import (
	"bytes"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// generated is a whole GenerateContentResponse of Google's API.
type generated struct {
	object []byte

	// a stream is one list instead of events
	list bool
}

// Generated returns a reply of Google's API, given its object; its stream consists of server-sent events.
func Generated(object []byte) AssembledReply { return &generated{object: object} }

// GeneratedList is Generated with a stream of one list of objects.
func GeneratedList(object []byte) AssembledReply { return &generated{object, true} }

func (g *generated) JSON() []byte     { return g.object }
func (g *generated) Tokens() []string { return nil }

// Events returns the reply as a stream: a chunk for each part, the last with the finish reason and the counts.
func (g *generated) Events() []byte {
	chunks := g.chunks()
	if g.list {
		return append(append([]byte{'['}, bytes.Join(chunks, []byte(",\n"))...), ']')
	}

	var b []byte
	for _, chunk := range chunks {
		b = append(append(append(b, "data: "...), chunk...), "\n\n"...)
	}

	return b
}

func (g *generated) chunks() [][]byte {
	o, err := rawjson.ParseObject(g.object)
	if err != nil {
		// the object is always valid
		return nil
	}

	all := rawjson.Cursor{Src: o.Or("candidates", "[]")}

	var one *rawjson.Object

	for n := range all.Elements {
		if raw := all.Skip(); n == 0 {
			one, err = rawjson.ParseObject(raw)
		}
	}

	if one == nil || err != nil {
		return [][]byte{g.object}
	}

	finish := one.Or("finishReason", `"STOP"`)
	parts := rawjson.Cursor{Src: rawjson.MemberOf(one.Or("content", "{}"), "parts")}
	usage := o.Or("usageMetadata", "{}")

	one.Remove("finishReason")
	o.Remove("usageMetadata")

	var chunks [][]byte

	for range parts.Elements {
		one.Set("content", append(append([]byte(`{"parts":[`), parts.Skip()...), `],"role":"model"}`...))

		if parts.Peek() == ']' {
			one.Set("finishReason", finish)
			o.Set("usageMetadata", usage)
		}

		o.Set("candidates", rawjson.AppendList(nil, one.Bytes()))
		chunks = append(chunks, o.Bytes())
	}

	return chunks
}
