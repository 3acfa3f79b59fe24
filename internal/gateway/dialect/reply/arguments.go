package reply

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// arguments returns the arguments of the calls whose pieces have these parts; joined is all of them.
// Usually that is one object. Otherwise the engine may have repeated it, or sent all of it so far with each
// piece, or begun again. If no such reading gives objects alone, the text is what the model wrote, and is
// left as it is: its mistakes are not the engine's.
func arguments(joined []byte, parts []part, named bool) [][]byte {
	if _, ok := object(joined); ok || len(parts) < 2 {
		return [][]byte{joined}
	}

	if last, ok := snapshot(parts); ok {
		return [][]byte{last}
	}

	found := separate(parts, named)
	if len(found) == 0 || len(found) > 1 && !named {
		return [][]byte{joined}
	}

	return found
}

// snapshot returns the last part if each part that is not empty begins with the part before it, and the
// last is an object.
func snapshot(parts []part) (last []byte, ok bool) {
	for _, p := range parts {
		if blank(p.text) {
			continue
		}

		if !bytes.HasPrefix(p.text, last) {
			return nil, false
		}

		last = p.text
	}

	_, ok = object(last)

	return last, ok
}

// maxComparisons bounds the repetitions of one call.
const maxComparisons = 16

// separate reads the parts in order. named: parts with a name may begin another call. It returns nil if the
// parts are not objects.
func separate(parts []part, named bool) (found [][]byte) {
	var (
		text   []byte
		object scan
	)

	begin := func(p part) { text, object = bytes.Clone(p.text), scan{}; object.add(p.text) }
	// by a name without arguments
	opened := false
	compared := 0

	for _, p := range parts {
		switch {
		case blank(p.text):
			opened = opened || object.isObject() && p.named
			continue
		case object.bad || compared == maxComparisons:
			return nil
		case !object.isObject() && len(text) > 0 && bytes.HasPrefix(p.text, text): // begun again
			begin(p)
		case !object.isObject():
			text = append(text, p.text...)
			object.add(p.text)
		case isEmpty(object.text): // nothing yet
			begin(p)
		case repeats(text, p.text):
			compared++
		case named && !p.named && !opened: // neither a repetition nor another call
			return nil
		default:
			compared++

			found = append(found, text)

			begin(p)
		}

		opened = false
	}

	switch n := len(found); {
	case !object.isObject():
		return nil
	case n > 0 && repeats(found[n-1], text): // in several parts
		return found
	default:
		return append(found, text)
	}
}

// isEmpty reports whether an object has no members.
func isEmpty(object []byte) bool {
	inner := bytes.TrimSpace(object)
	return len(bytes.TrimSpace(inner[1:len(inner)-1])) == 0
}

// repeats reports whether a text is the same object as another, or a string with the same object.
func repeats(before, text []byte) bool {
	value, whole := object(before)

	again, ok := decode(text)
	if !whole || !ok {
		return false
	}

	var inner string
	if json.Unmarshal(again, &inner) == nil {
		again = []byte(inner)
	}

	return same(value, again)
}

// maxCompared bounds objects that are compared by value, in bytes. Larger ones are compared by their bytes.
const maxCompared = 1 << 20

func same(a, b []byte) bool {
	var x, y any

	if bytes.Equal(a, b) {
		return true
	}

	if len(a) > maxCompared || len(b) > maxCompared || !rawjson.Nestable(a) || !rawjson.Nestable(b) {
		return false
	}

	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// object returns the JSON object that a text encodes, without surrounding white space.
func object(text []byte) ([]byte, bool) {
	value, ok := decode(text)
	value = bytes.TrimSpace(value)

	return value, ok && len(value) > 0 && value[0] == '{' && json.Valid(value)
}

// decode returns the content of a JSON string, given with its escapes.
func decode(text []byte) ([]byte, bool) {
	if bytes.IndexByte(text, '\\') < 0 {
		return text, true
	}

	var s string

	err := json.Unmarshal(rawjson.AppendString(nil, text), &s)

	return []byte(s), err == nil
}

// opens reports whether a text begins an object.
func opens(text []byte) bool {
	value, _ := decode(text)
	value = bytes.TrimSpace(value)

	return len(value) > 0 && value[0] == '{'
}

// blank reports whether a text, given with its escapes, has nothing but white space.
func blank(text []byte) bool {
	if len(text) == 0 {
		return true
	}

	value, ok := decode(text)

	return ok && len(bytes.TrimSpace(value)) == 0
}
