package render

import (
	"encoding/json"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// message is a message of the Messages API, one JSON object.
type message struct{ object []byte }

func (m *message) JSON() []byte     { return m.object }
func (m *message) Tokens() []string { return nil }

func emptyMessage(model string) *message {
	return &message{
		[]byte(`{"id":"msg_ended","type":"message","role":"assistant","model":` + string(rawjson.Quote(model)) +
			`,"content":[],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}`),
	}
}

// Events returns the message as a stream with one piece for each block.
func (m *message) Events() []byte {
	o, err := rawjson.ParseObject(m.object)
	if err != nil {
		// the object is always valid
		return nil
	}

	content, _ := o.Get("content")
	stop, end := o.Or("stop_reason", "null"), o.Or("stop_sequence", "null")
	usage := o.Or("usage", "{}")
	o.Set("content", []byte("[]"))
	o.Set("stop_reason", []byte("null"))
	o.Set("stop_sequence", []byte("null"))
	b := appendEvent(nil, "message_start", `"message":`, o.Bytes())

	c := rawjson.Cursor{Src: content}
	if c.Peek() == '[' {
		for n := range c.Elements {
			b = appendBlock(b, n, c.Skip())
		}
	}

	b = appendEvent(b, "message_delta", `"delta":{"stop_reason":`, stop, `,"stop_sequence":`, end, `},"usage":`, usage)

	return appendEvent(b, "message_stop")
}

// appendEvent writes an event; parts are the members after the type.
func appendEvent(b []byte, kind string, parts ...any) []byte {
	b = append(append(append(b, "event: "...), kind...), "\ndata: {\"type\":\""...)
	b = append(append(b, kind...), '"')

	for i, part := range parts {
		if i == 0 {
			b = append(b, ',')
		}

		switch p := part.(type) {
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		case int:
			b = strconv.AppendInt(b, int64(p), 10)
		}
	}

	return append(b, "}\n\n"...)
}

// appendBlock writes the events of a content block: start, text, stop. A block of an unknown kind is sent
// whole in its start.
func appendBlock(b []byte, n int, raw []byte) []byte {
	o, err := rawjson.ParseObject(raw)
	if err != nil {
		return b
	}

	var deltas [][]byte

	for _, f := range flowing() {
		value, ok := o.Get(f.member)
		if !ok || f.of != rawjson.TextOf(o.Or("type", "")) || string(value) == f.nothing {
			continue
		}

		if f.json {
			value = rawjson.Quote(string(value))
		}

		o.Set(f.member, []byte(f.nothing))
		deltas = append(deltas, []byte(`{"type":"`+f.delta+`","`+f.piece+`":`+string(value)+`}`))
	}

	b = appendEvent(b, "content_block_start", `"index":`, n, `,"content_block":`, o.Bytes())
	for _, d := range deltas {
		b = appendEvent(b, "content_block_delta", `"index":`, n, `,"delta":`, d)
	}

	return appendEvent(b, "content_block_stop", `"index":`, n)
}

// flow describes a member of a block that a stream sends in pieces.
type flow struct {
	// the block's type and member
	of, member string

	// the piece's type and its member with the text
	delta, piece string

	// the member's value before the first piece
	nothing string

	// the pieces form a JSON text
	json bool
}

func flowing() []flow {
	return []flow{
		{"text", "text", "text_delta", "text", `""`, false},
		{"thinking", "thinking", "thinking_delta", "thinking", `""`, false},
		{"thinking", "signature", "signature_delta", "signature", `""`, false},
		{"tool_use", "input", "input_json_delta", "partial_json", `{}`, true},
		{"server_tool_use", "input", "input_json_delta", "partial_json", `{}`, true},
		{"mcp_tool_use", "input", "input_json_delta", "partial_json", `{}`, true},
	}
}

// inputOf returns a tool's input from the pieces' text; text that is not JSON stays a string.
func inputOf(inner []byte) []byte {
	raw := rawjson.AppendString(nil, inner)

	var s string
	if json.Unmarshal(raw, &s) != nil || !json.Valid([]byte(s)) {
		return raw
	}

	return []byte(s)
}
