package rawjson

import (
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Object is a JSON object whose members can be set and removed. All other bytes and their order are kept.
type Object struct {
	src []byte

	// where what is inside the brace begins
	first int

	// where the last member ends
	last    int
	members []member
	added   []member
}

type member struct {
	key string

	// where the key begins
	from int

	// place of the value
	start, end int

	// replaces it when not nil
	value   []byte
	removed bool
}

// maxMembers bounds the members of an Object: each takes memory besides its text, and no API has that many.
const maxMembers = 4096

// usualMembers is as many members as most objects have, and as most get.
const usualMembers = 16

// ParseObject reads the top level of src and keeps it; src must not change afterwards. What is below the
// top level is not judged beyond its brackets and strings. The error is a fault.Invalid.
func ParseObject(src []byte) (*Object, error) {
	c := Cursor{Src: src}
	if c.Peek() != '{' {
		return nil, fault.New(fault.Invalid, "not a JSON object")
	}

	o := &Object{src: src, first: c.At + 1, last: c.At + 1}
	for key := range c.Fields {
		if len(o.members) == maxMembers {
			return nil, fault.New(fault.Invalid, "a JSON object of more than %d members", maxMembers)
		}

		if o.members == nil {
			o.members = make([]member, 0, usualMembers)
		}

		from := c.KeyAt
		c.Peek()
		m := member{key: decodeKey(key), from: from, start: c.At}
		c.Skip()
		m.end, o.last = c.At, c.At
		o.members = append(o.members, m)
	}

	if !c.AtEnd() {
		return nil, fault.New(fault.Invalid, "not a JSON object: broken near byte %d", c.At)
	}

	return o, nil
}

// decodeKey undoes escapes, so that no spelling of a key slips by.
func decodeKey(raw []byte) string {
	for _, ch := range raw {
		if ch == '\\' {
			var s string
			if json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &s) == nil {
				return s
			}

			break
		}
	}

	return string(raw)
}

// Get returns the value of a member. Of several with one key the last counts, as it does for the parsers of
// model servers.
func (o *Object) Get(key string) ([]byte, bool) {
	for _, list := range [][]member{o.added, o.members} {
		for i := range slices.Backward(list) {
			if m := &list[i]; m.key == key && !m.removed {
				return o.value(m), true
			}
		}
	}

	return nil, false
}

func (o *Object) value(m *member) []byte {
	if m.value != nil {
		return m.value
	}

	return o.src[m.start:m.end]
}

// Set gives every member of that key the value, which must be JSON, or adds one at the end.
func (o *Object) Set(key string, value []byte) {
	found := false

	for _, list := range [][]member{o.members, o.added} {
		for i := range list {
			if list[i].key == key && !list[i].removed {
				list[i].value, found = value, true
			}
		}
	}

	if !found {
		if o.added == nil {
			o.added = make([]member, 0, usualMembers)
		}

		o.added = append(o.added, member{key: key, value: value})
	}
}

// Removed is a member that was taken out.
type Removed struct {
	Key   string
	Value []byte
}

// Filter removes every member whose key is not to be kept, in one pass, and returns the removed ones in order.
func (o *Object) Filter(keep func(key string) bool) []Removed {
	var out []Removed

	for i := range o.members {
		if m := &o.members[i]; !m.removed && !keep(m.key) {
			m.removed = true
			out = append(out, Removed{m.key, o.value(m)})
		}
	}

	o.added = slices.DeleteFunc(o.added, func(m member) bool { return !keep(m.key) })

	return out
}

// Remove removes every member of that key.
func (o *Object) Remove(key string) {
	for i := range o.members {
		o.members[i].removed = o.members[i].removed || o.members[i].key == key
	}

	o.added = slices.DeleteFunc(o.added, func(m member) bool { return m.key == key })
}

// Bytes returns the current object.
func (o *Object) Bytes() []byte {
	out := append(make([]byte, 0, o.size()), o.src[:o.first]...)
	bare := len(out)

	for i := range o.members {
		m := &o.members[i]
		switch {
		case m.removed:
			continue
		case len(out) > bare:
			// the comma
			out = append(out, o.src[o.members[i-1].end:m.from]...)
		default:
			out = append(out, o.src[o.first:o.members[0].from]...)
		}

		out = append(append(out, o.src[m.from:m.start]...), o.value(m)...)
	}

	for _, m := range o.added {
		if len(out) > bare {
			out = append(out, ',')
		}

		out = append(append(AppendQuote(out, m.key), ':'), m.value...)
	}

	return append(out, o.src[o.last:]...)
}

// size is an upper bound of the object's length.
func (o *Object) size() int {
	n := len(o.src)
	for _, m := range o.members {
		n += len(m.value)
	}

	for _, m := range o.added {
		n += 6*len(m.key) + len(m.value) + 4
	}

	return n
}

// Or is a member's value, or another when there is none.
func (o *Object) Or(key, other string) []byte {
	if v, ok := o.Get(key); ok {
		return v
	}

	return []byte(other)
}

// Members yields the members as they stand, in the order of the text.
func (o *Object) Members(yield func(key string, value []byte) bool) {
	for _, list := range [][]member{o.members, o.added} {
		for i := range list {
			if !list[i].removed && !yield(list[i].key, o.value(&list[i])) {
				return
			}
		}
	}
}

// NewObject is an object without members.
func NewObject() *Object { return &Object{src: []byte("{}"), first: 1, last: 1} }
