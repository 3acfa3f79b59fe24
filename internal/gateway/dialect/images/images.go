// Package images finds the images of a request's prompt, reads them, and puts a text in their place.
package images

import (
	"bytes"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// maxDepth bounds the nesting of contents: a message, its parts, the result of a tool in them, and its parts.
const maxDepth = 16

// Count returns the number of images in the prompt of a request.
func Count(api reply.API, request []byte) int {
	if !mayHave(request) {
		return 0
	}

	return len(find(rawjson.MemberOf(request, member(api))))
}

// Replace puts a text in the place of each image of a request's prompt and returns the number of images.
func Replace(api reply.API, request *rawjson.Object, text string) int {
	name := member(api)

	prompt, ok := request.Get(name)
	if !ok || !mayHave(prompt) {
		return 0
	}

	found := find(prompt)
	if len(found) == 0 {
		return 0
	}

	part := append(append([]byte(`{"type":"`+textType(api)+`","text":`), rawjson.Quote(text)...), '}')

	var out []byte

	at := 0
	for _, image := range found {
		out = append(append(out, prompt[at:image.from]...), part...)
		at = image.to
	}

	request.Set(name, append(out, prompt[at:]...))

	return len(found)
}

// member returns the member of a request with its prompt.
func member(api reply.API) string {
	if api == reply.Responses {
		return "input"
	}

	return "messages"
}

func textType(api reply.API) string {
	if api == reply.Responses {
		return "input_text"
	}

	return "text"
}

// mayHave reports whether a text can have an image. Most have none, and the search takes much less time than a walk. A
// name may be escaped.
func mayHave(text []byte) bool {
	return bytes.Contains(text, []byte("image")) || bytes.Contains(text, []byte(`\u`))
}

// place is the position of a value in a text.
type place struct{ from, to int }

// part is an image of a prompt.
type part struct {
	place

	// index of the message that has it
	message int

	// between the quotes of the text that has its bytes or its URL; empty: there is none
	source place

	// the text has the bytes alone, and their type is beside it, as in messages
	bare      bool
	mediaType []byte
}

// find returns the images of a prompt, in order.
func find(prompt []byte) []part {
	var w walk

	c := rawjson.Cursor{Src: prompt}
	w.value(&c, 0)

	if c.Bad {
		// the endpoint refuses it
		return nil
	}

	return w.found
}

type walk struct {
	found   []part
	message int
}

// value steps over a message, a part or a list of these.
func (w *walk) value(c *rawjson.Cursor, depth int) {
	switch ch := c.Peek(); {
	case depth < maxDepth && ch == '[':
		for n := range c.Elements {
			if depth == 0 {
				w.message = n
			}

			w.value(c, depth+1)
		}
	case depth < maxDepth && ch == '{':
		w.object(c, depth)
	default:
		c.Skip()
	}
}

func (w *walk) object(c *rawjson.Cursor, depth int) {
	c.Peek()

	own, before := part{place: place{from: c.At}, message: w.message}, len(w.found)
	kind, located := "", false

	for key := range c.Fields {
		switch plain(key) {
		case "type":
			kind = plain(c.Text())
		case "image_url":
			located = c.Peek() != 'n'

			own.readSource(c)
		case "source":
			own.readSource(c)
		case "content", "output":
			w.value(c, depth+1)
		default:
			c.Skip()
		}
	}

	// vLLM reads a part without a type by its members. A part of text may have all members of a part, as null.
	if isImage(kind) || kind == "" && located {
		own.to = c.At
		w.found = append(w.found[:before], own)
	}
}

// readSource steps over the source of an image: a text, or an object that has it.
func (p *part) readSource(c *rawjson.Cursor) {
	switch c.Peek() {
	case '"':
		p.source, p.bare = textAt(c), false
	case '{':
		for key := range c.Fields {
			switch name := plain(key); {
			case (name == "url" || name == "data") && c.Peek() == '"':
				p.source, p.bare = textAt(c), name == "data"
			case name == "media_type" && c.Peek() == '"':
				p.mediaType = c.String()
			default:
				c.Skip()
			}
		}
	default:
		c.Skip()
	}
}

// textAt steps over a string and returns the place between its quotes.
func textAt(c *rawjson.Cursor) place {
	text := c.String()

	return place{c.At - 1 - len(text), c.At - 1}
}

// isImage reports whether a part of this type is an image: of chat completions, of responses, or of messages.
func isImage(kind string) bool {
	return kind == "image_url" || kind == "input_image" || kind == "image"
}

// plain returns the text of a string between its quotes.
func plain(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}

	var s string
	if json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &s) != nil {
		return string(raw)
	}

	return s
}
