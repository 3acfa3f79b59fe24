package rawjson

import "encoding/json"

// IsObject reports whether a reply is one JSON object, as opposed to a stream of events.
func IsObject(raw []byte) bool {
	c := Cursor{Src: raw}
	return c.Peek() == '{'
}

// MemberOf is the raw value of a member of an object; nil when there is none.
func MemberOf(object []byte, want string) []byte {
	c := Cursor{Src: object}
	if c.Peek() != '{' {
		return nil
	}

	var found []byte

	for key := range c.Fields {
		if value := c.Skip(); string(key) == want {
			found = value
		}
	}

	return found
}

// NumberIn is a number among an object's members; 0 where there is none.
func NumberIn(o *Object, key string) int64 {
	c := Cursor{Src: o.Or(key, "0")}
	return c.Integer()
}

// TextOf returns the content of a raw string with its escapes, or "" for any other value.
func TextOf(raw []byte) string {
	c := Cursor{Src: raw}
	return string(c.Text())
}

// Quote returns s as a JSON string.
func Quote(s string) []byte { return AppendQuote(make([]byte, 0, len(s)+2), s) }

// AppendQuote appends s as a JSON string. Most are names, which need no escapes.
func AppendQuote(b []byte, s string) []byte {
	if plain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	// a string always encodes
	quoted, _ := json.Marshal(s)

	return append(b, quoted...)
}

// plain reports whether s needs no escapes in a JSON string.
func plain[T string | []byte](s T) bool {
	for i := range len(s) {
		if ch := s[i]; ch < ' ' || ch > '~' || ch == '"' || ch == '\\' || ch == '<' || ch == '>' || ch == '&' {
			return false
		}
	}

	return true
}

// IsPlain reports whether raw is obviously a JSON value: a literal, a number of digits, or a string of
// plain characters.
func IsPlain(raw []byte) bool {
	switch string(raw) {
	case "true", "false", "null":
		return true
	}

	switch {
	case len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"':
		return plain(raw[1 : len(raw)-1])
	case len(raw) == 0 || len(raw) > 1 && raw[0] == '0':
		return false
	}

	for _, ch := range raw {
		if ch < '0' || ch > '9' {
			return false
		}
	}

	return true
}

// AppendString appends a JSON string whose content is already escaped.
func AppendString(b, inner []byte) []byte { return append(append(append(b, '"'), inner...), '"') }

// AppendRaw appends raw, or null if it is nil.
func AppendRaw(b, raw []byte) []byte {
	if raw == nil {
		return append(b, "null"...)
	}

	return append(b, raw...)
}

// AppendList appends a JSON array of the encoded elements.
func AppendList(b, elements []byte) []byte {
	return append(append(append(b, '['), elements...), ']')
}
