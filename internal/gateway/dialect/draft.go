package dialect

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Draft is a request that is being rewritten; it keeps account of what the agent had given.
type Draft struct {
	*rawjson.Object
	Changes changes
}

// change is a member as the agent gave it and as it goes upstream; nil where there is none.
type change struct {
	key      string
	from, to []byte
}

type changes []change

// Set sets a field of the request and records the change. The value must be none of the request's own memory.
func (d *Draft) Set(key string, value []byte) {
	from, _ := d.Get(key)
	d.note(key, from, value)
	d.Object.Set(key, value)
}

// Remove removes a field of the request and records the change.
func (d *Draft) Remove(key string) {
	if from, ok := d.Get(key); ok {
		d.note(key, from, nil)
		d.Object.Remove(key)
	}
}

// Restore gives a member back what the agent had given.
func (d *Draft) Restore(key string) {
	switch one, ok := d.Changes.of(key); {
	case !ok:
	case one.from == nil:
		d.Remove(key)
	default:
		d.Set(key, one.from)
	}
}

// note keeps the agent's own value over later changes, and nothing of the request's own memory.
func (d *Draft) note(key string, from, to []byte) {
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

// of says whether a member is not as the agent gave it.
func (c changes) of(key string) (change, bool) {
	for _, one := range c {
		if one.key == key && !bytes.Equal(one.from, one.to) {
			return one, true
		}
	}
	return change{}, false
}

// Given says whether the agent had given a member that is not as it gave it.
func (c changes) Given(key string) bool {
	one, ok := c.of(key)
	return ok && one.from != nil
}

// Any says whether one of several members is not as the agent gave it.
func (c changes) Any(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		_, ok := c.of(key)
		return ok
	})
}

// set says whether one of several members goes upstream otherwise than the agent gave it.
func (c changes) set(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		one, ok := c.of(key)
		return ok && one.to != nil
	})
}

// JSON is the account as the record has it: {"max_tokens":{"from":32000,"to":4096}}; nil when nothing was changed.
func (c changes) JSON() json.RawMessage {
	const usual = 48 // bytes of a change
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

// readable is a value that may stand in a record: what an agent gave need not be JSON below the top.
func readable(raw []byte) []byte {
	if rawjson.IsPlain(raw) || json.Valid(raw) && rawjson.Nestable(raw) {
		return raw
	}
	text, _ := json.Marshal(string(raw)) // a string always encodes
	return text
}
