package rawjson

import "encoding/json"

// IsObject says whether a reply is one JSON object, and no stream of events.
func IsObject(raw []byte) bool {
	c := Cursor{Src: raw}
	return c.Peek() == '{'
}

// memberOf is the raw value of a member of an object; nil when there is none.
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

// numberIn is a number among an object's members; 0 where there is none.
func NumberIn(o *Object, key string) int64 {
	c := Cursor{Src: o.Or(key, "0")}
	return c.Integer()
}

// text is what stands in a raw string, escapes as they stand; "" for anything else.
func TextOf(raw []byte) string {
	c := Cursor{Src: raw}
	return string(c.Text())
}

func Quote(s string) []byte {
	b, _ := json.Marshal(s) // a string always encodes
	return b
}

func AppendString(b, inner []byte) []byte { return append(append(append(b, '"'), inner...), '"') }

func AppendRaw(b, raw []byte) []byte {
	if raw == nil {
		return append(b, "null"...)
	}
	return append(b, raw...)
}

func AppendList(b, elements []byte) []byte {
	return append(append(append(b, '['), elements...), ']')
}
