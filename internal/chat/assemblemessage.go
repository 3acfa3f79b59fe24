package chat

// block is a content block on its way.
type block struct {
	index  int64
	object *Object
	texts  [][]byte // by flow: what stood in the pieces' quotes
	cites  []byte   // citations, with commas between
}

// draft is a message on its way.
type draft struct {
	head   *Object
	blocks []*block
}

// assembleMessage puts a message together from its events; before its first event there is none, and it is empty.
func assembleMessage(raw []byte) (*message, error) {
	raw = tidy(raw)
	if IsObject(raw) {
		return &message{raw}, nil
	}
	var d draft
	for data := range events(raw) {
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
	o, err := ParseObject(data)
	if err != nil {
		return err
	}
	switch text(o.or("type", "")) {
	case "message_start":
		d.head, err = ParseObject(o.or("message", "{}"))
	case "content_block_start":
		b := &block{index: numberIn(o, "index"), texts: make([][]byte, len(flowing()))}
		b.object, err = ParseObject(o.or("content_block", "{}"))
		d.blocks = append(d.blocks, b)
	case "content_block_delta":
		for _, b := range d.blocks {
			if b.index == numberIn(o, "index") {
				err = b.add(o.or("delta", "{}"))
			}
		}
	case "message_delta":
		err = d.end(o)
	}
	return err
}

func (b *block) add(delta []byte) error {
	o, err := ParseObject(delta)
	if err != nil {
		return err
	}
	kind := text(o.or("type", ""))
	for i, f := range flowing() {
		if f.delta == kind && f.of == text(b.object.or("type", "")) {
			b.texts[i] = append(b.texts[i], text(o.or(f.piece, ""))...)
		}
	}
	if citation, ok := o.Get("citation"); ok && kind == "citations_delta" {
		if b.cites != nil {
			b.cites = append(b.cites, ',')
		}
		b.cites = append(b.cites, citation...)
	}
	return nil
}

// bytes is the block with all its pieces; what it began with comes first.
func (b *block) bytes() []byte {
	for i, f := range flowing() {
		switch {
		case len(b.texts[i]) == 0:
		case f.json:
			b.object.Set(f.member, inputOf(b.texts[i]))
		default:
			begun := text(b.object.or(f.member, ""))
			b.object.Set(f.member, appendString(nil, append([]byte(begun), b.texts[i]...)))
		}
	}
	if b.cites != nil {
		b.object.Set("citations", appendList(nil, b.cites))
	}
	return b.object.Bytes()
}

// end takes in why the message ended, and the counts that are known only then.
func (d *draft) end(o *Object) error {
	if d.head == nil {
		return errUnreadable
	}
	delta, err := ParseObject(o.or("delta", "{}"))
	if err != nil {
		return err
	}
	for _, key := range []string{"stop_reason", "stop_sequence"} {
		if v, ok := delta.Get(key); ok {
			d.head.Set(key, v)
		}
	}
	said, err := ParseObject(o.or("usage", "{}"))
	if err != nil {
		return err
	}
	usage, err := ParseObject(d.head.or("usage", "{}"))
	if err != nil {
		return err
	}
	for i := range said.members {
		usage.Set(said.members[i].key, said.value(&said.members[i]))
	}
	d.head.Set("usage", usage.Bytes())
	return nil
}
