package dialect

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Draft is a request that is being rewritten. It records the agent's original values.
type Draft struct {
	*rawjson.Object
	Changes changes
}

// change is a member's value from the agent and its value upstream; nil: absent.
type change struct {
	key      string
	from, to []byte
}

type changes []change

// Set sets a member and records the change. The value must not share the request's memory.
func (d *Draft) Set(key string, value []byte) {
	from, _ := d.Get(key)
	d.noteChange(key, from, value)
	d.Object.Set(key, value)
}

// Remove removes a member and records the change.
func (d *Draft) Remove(key string) {
	if from, ok := d.Get(key); ok {
		d.noteChange(key, from, nil)
		d.Object.Remove(key)
	}
}

// Restore sets a member to the agent's value.
func (d *Draft) Restore(key string) {
	switch one, ok := d.Changes.of(key); {
	case !ok:
	case one.from == nil:
		d.Remove(key)
	default:
		d.Set(key, one.from)
	}
}

// noteChange copies the agent's value on the first change of a member.
func (d *Draft) noteChange(key string, from, to []byte) {
	for i := range d.Changes {
		if d.Changes[i].key == key {
			d.Changes[i].to = to
			return
		}
	}

	if !bytes.Equal(from, to) {
		d.Changes = append(d.Changes, change{key, bytes.Clone(from), to})
	}
}

// of reports whether a member was changed.
func (c changes) of(key string) (change, bool) {
	for _, one := range c {
		if one.key == key && !bytes.Equal(one.from, one.to) {
			return one, true
		}
	}

	return change{}, false
}

// Given reports whether a member was changed that the agent had set.
func (c changes) Given(key string) bool {
	one, ok := c.of(key)
	return ok && one.from != nil
}

// Any reports whether one of several members was changed.
func (c changes) Any(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		_, ok := c.of(key)
		return ok
	})
}

// set reports whether one of several members goes upstream with a changed value.
func (c changes) set(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		one, ok := c.of(key)
		return ok && one.to != nil
	})
}

// JSON returns the changes for the record: {"max_tokens":{"from":32000,"to":4096}}; nil: none.
func (c changes) JSON() json.RawMessage {
	// estimated bytes of a change
	const usual = 48

	b := make([]byte, 0, usual*len(c))
	for _, one := range c {
		if bytes.Equal(one.from, one.to) {
			continue
		}

		b = append(rawjson.AppendQuote(append(b, ','), one.key), `:{`...)
		if one.from != nil {
			b = append(append(b, `"from":`...), readable(one.from)...)
		}

		if one.from != nil && one.to != nil {
			b = append(b, ',')
		}

		if one.to != nil {
			b = append(append(b, `"to":`...), readable(one.to)...)
		}

		b = append(b, '}')
	}

	if len(b) == 0 {
		return nil
	}

	b[0] = '{'

	return append(b, '}')
}

// readable returns a value as valid JSON: an agent's value is checked only at the top level.
func readable(raw []byte) []byte {
	if rawjson.IsPlain(raw) || json.Valid(raw) && rawjson.Nestable(raw) {
		return raw
	}
	// a string always encodes
	text, _ := json.Marshal(string(raw))

	return text
}
