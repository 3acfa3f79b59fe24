package render

import (
	"slices"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// block is an incomplete content block.
type block struct {
	index  int64
	object *rawjson.Object

	// by flow: the pieces' text between quotes
	texts [][]byte

	// citations, with commas between
	cites []byte
}

// draft is an incomplete message.
type draft struct {
	head   *rawjson.Object
	blocks []*block
}

// assembleMessage assembles a message from its events; without any it is empty.
func assembleMessage(raw []byte) (*message, error) {
	raw = tidy(raw)
	if rawjson.IsObject(raw) {
		return &message{raw}, nil
	}

	var d draft
	for data := range reply.SSEEvents(raw) {
		if err := d.add(data); err != nil {
			return nil, err
		}
	}

	if d.head == nil {
		return &message{[]byte("{}")}, nil
	}

	content := []byte{'['}

	for i, b := range d.blocks {
		if i > 0 {
			content = append(content, ',')
		}

		content = append(content, b.bytes()...)
	}

	d.head.Set("content", append(content, ']'))

	return &message{d.head.Bytes()}, nil
}

func (d *draft) add(data []byte) error {
	o, err := rawjson.ParseObject(data)
	if err != nil {
		return err
	}

	switch rawjson.TextOf(o.Or("type", "")) {
	case "message_start":
		d.head, err = rawjson.ParseObject(o.Or("message", "{}"))
	case "content_block_start":
		b := &block{index: rawjson.NumberIn(o, "index"), texts: make([][]byte, len(flowing()))}
		b.object, err = rawjson.ParseObject(o.Or("content_block", "{}"))

		if len(d.blocks) == maxParts {
			return errUnreadable
		}

		d.blocks = append(d.blocks, b)
	case "content_block_delta":
		index := rawjson.NumberIn(o, "index")
		for _, b := range d.blocks {
			if b.index == index {
				err = b.add(o.Or("delta", "{}"))
			}
		}
	case "message_delta":
		err = d.end(o)
	}

	return err
}

func (b *block) add(delta []byte) error {
	o, err := rawjson.ParseObject(delta)
	if err != nil {
		return err
	}

	kind := rawjson.TextOf(o.Or("type", ""))
	for i, f := range flowing() {
		if f.delta == kind && f.of == rawjson.TextOf(b.object.Or("type", "")) {
			b.texts[i] = append(b.texts[i], rawjson.TextOf(o.Or(f.piece, ""))...)
		}
	}
	// it is whole
	if kind == "compaction_delta" {
		o.Remove("type")
		take(b.object, o)
	}

	if citation, ok := o.Get("citation"); ok && kind == "citations_delta" {
		if b.cites != nil {
			b.cites = append(b.cites, ',')
		}

		b.cites = append(b.cites, citation...)
	}

	return nil
}

// bytes returns the block with all its pieces, after its initial text.
func (b *block) bytes() []byte {
	for i, f := range flowing() {
		switch {
		case len(b.texts[i]) == 0:
		case f.json:
			b.object.Set(f.member, inputOf(b.texts[i]))
		default:
			begun := rawjson.TextOf(b.object.Or(f.member, ""))
			b.object.Set(f.member, rawjson.AppendString(nil, append([]byte(begun), b.texts[i]...)))
		}
	}

	if b.cites != nil {
		b.object.Set("citations", rawjson.AppendList(nil, b.cites))
	}

	return b.object.Bytes()
}

// end reads the stop reason and what only the last event says, such as the final counts.
func (d *draft) end(o *rawjson.Object) error {
	if d.head == nil {
		return errUnreadable
	}

	delta, err := rawjson.ParseObject(o.Or("delta", "{}"))
	if err != nil {
		return err
	}

	final, err := rawjson.ParseObject(o.Or("usage", "{}"))
	if err != nil {
		return err
	}

	usage, err := rawjson.ParseObject(d.head.Or("usage", "{}"))
	if err != nil {
		return err
	}

	o.Filter(func(key string) bool { return !slices.Contains([]string{"type", "delta", "usage"}, key) })
	take(d.head, o)
	take(d.head, delta)
	take(usage, final)
	d.head.Set("usage", usage.Bytes())

	return nil
}

// take sets members that a later event gives. A null replaces no value.
func take(into, from *rawjson.Object) {
	for key, value := range from.Members {
		if _, known := into.Get(key); !known || string(value) != "null" {
			into.Set(key, value)
		}
	}
}
