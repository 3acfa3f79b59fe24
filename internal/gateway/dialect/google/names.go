package google

import (
	"bytes"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// maxNames bounds how deep in a request names are looked for.
const maxNames = 64

// camelCase is a request with the names of its members in lowerCamelCase. The API takes them in snake_case
// as well, and Google's client for Python sends both in one request. What has names of the agent's own
// keeps them: see opaque, and the properties of a schema. A request that cannot be read is returned as it
// is.
func camelCase(body []byte) []byte {
	r := renamer{Cursor: rawjson.Cursor{Src: body}}
	r.value(0)

	if !r.AtEnd() {
		return body
	}

	return append(r.out, body[r.done:]...)
}

// opaque are the members that have no names of the API in them.
func opaque() []string {
	return []string{"args", "response", "parametersJsonSchema", "responseJsonSchema", "default", "example"}
}

// renamer walks a request and copies it.
type renamer struct {
	rawjson.Cursor
	out []byte

	// how far the request was copied
	done int
}

func (r *renamer) value(depth int) {
	switch ch := r.Peek(); {
	case depth == maxNames:
		r.Skip()
	case ch == '{':
		for key := range r.Fields {
			r.member(r.rename(key), depth+1)
		}
	case ch == '[':
		for range r.Elements {
			r.value(depth + 1)
		}
	default:
		r.Skip()
	}
}

func (r *renamer) member(name string, depth int) {
	switch {
	case slices.Contains(opaque(), name):
		r.Skip()
	case name == "properties" && r.Peek() == '{':
		for range r.Fields {
			r.value(depth + 1)
		}
	default:
		r.value(depth)
	}
}

// rename writes the name of the member whose value comes next.
func (r *renamer) rename(key []byte) string {
	if bytes.IndexByte(key, '_') < 0 {
		return string(key)
	}

	r.out = append(append(r.out, r.Src[r.done:r.KeyAt]...), '"')
	from := len(r.out)

	for i, ch := range key {
		switch {
		case ch == '_':
			continue
		case i > 0 && key[i-1] == '_' && ch >= 'a' && ch <= 'z':
			ch -= 'a' - 'A'
		}

		r.out = append(r.out, ch)
	}

	name := string(r.out[from:])
	r.out, r.done = append(r.out, `":`...), r.At

	return name
}
