package reply

import "bytes"

// maxCalls bounds the calls of a reply: each piece is joined to its call by a linear search.
const maxCalls = 1024

// maxName bounds names that are joined of pieces, in bytes.
const maxName = 1 << 10

// ToolCall is a tool call. Its texts are the contents of JSON strings, with their escapes.
type ToolCall struct {
	ID, Kind, Name, Args []byte
}

// Argless reports whether a call has no arguments.
func (c *ToolCall) Argless() bool { return blank(c.Args) }

// WholeCalls returns the calls of a message, whose list has whole calls. It returns false if there are too many.
func WholeCalls(pieces []CallPiece) ([]ToolCall, bool) {
	if len(pieces) > maxCalls {
		return nil, false
	}

	list := make([]ToolCall, len(pieces))
	for i, p := range pieces {
		list[i] = ToolCall{ID: p.ID, Kind: kindOf(p.Kind), Name: p.Name, Args: p.Args}
	}

	return list, true
}

// JoinCalls returns the calls of a stream's pieces, in the order in which they begin. It returns false if
// there are too many.
//
// The pieces of a call have the same number, or the same id, or the same position in their lists. Among
// them, a piece with another id or another name begins another call, because some engines number all calls
// 0. A repeated name alone does not begin one: arguments decides.
func JoinCalls(pieces []CallPiece) ([]ToolCall, bool) {
	if len(pieces) > maxPieces {
		return nil, false
	}

	var drafts []*draft

	for i := range pieces {
		p := &pieces[i]

		d := find(drafts, p)
		if d == nil || d.endsBefore(p) {
			if len(drafts) == maxCalls {
				return nil, false
			}

			d = &draft{index: p.Index, position: p.Position}
			drafts = append(drafts, d)
		}

		d.add(p)
	}

	var list []ToolCall
	for _, d := range drafts {
		list = append(list, d.calls()...)
	}

	return list, len(list) <= maxCalls
}

// draft is an incomplete call, or several that cannot be separated before all pieces are known.
type draft struct {
	index, position int
	id, kind, name  []byte
	parts           []part

	// a piece after the first has the name
	named bool

	// the scan of the first parts
	object scan

	// their number
	scanned int
}

// part is the text of one piece.
type part struct {
	text []byte

	// the piece has the name
	named bool
}

// find returns the latest call that a piece may belong to.
func find(drafts []*draft, p *CallPiece) *draft {
	for i := len(drafts) - 1; i >= 0; i-- {
		d := drafts[i]
		switch {
		case p.Index >= 0 && d.index >= 0:
			if p.Index == d.index {
				return d
			}
		case len(p.ID) > 0 && bytes.Equal(p.ID, d.id):
			return d
		}
	}

	for i := len(drafts) - 1; i >= 0 && p.Index < 0; i-- {
		if d := drafts[i]; d.index < 0 && d.position == p.Position {
			return d
		}
	}

	// nothing but arguments, where only some pieces have a number
	if n := len(drafts); n > 0 && len(p.ID)+len(p.Name) == 0 && (p.Index < 0 || drafts[n-1].index < 0) {
		return drafts[n-1]
	}

	return nil
}

// endsBefore reports whether a piece that d may have begins another call.
func (d *draft) endsBefore(p *CallPiece) bool {
	switch {
	case len(p.Name) == 0:
		return false
	case len(d.id) > 0 && len(p.ID) > 0 && !bytes.Equal(d.id, p.ID):
		// An engine that gives each piece an id of its own continues the arguments.
		object := d.scan()
		return !object.started || object.isObject() || blank(p.Args) || opens(p.Args)
	default:
		return len(d.name) > 0 && !bytes.Equal(d.name, p.Name) && d.scan().started
	}
}

// scan reads the parts that were not read yet: those of most calls never are.
func (d *draft) scan() *scan {
	for _, p := range d.parts[d.scanned:] {
		d.object.add(p.text)
	}

	d.scanned = len(d.parts)

	return &d.object
}

func (d *draft) add(p *CallPiece) {
	if len(p.ID) > 0 {
		d.id = p.ID
	}

	if len(p.Kind) > 0 {
		d.kind = p.Kind
	}

	again := len(p.Name) > 0 && len(d.name) > 0

	d.named = d.named || again
	switch {
	case bytes.HasPrefix(p.Name, d.name): // the first, a repeated, or a longer one
		if len(p.Name) > 0 {
			d.name = p.Name
		}
	case len(p.Name) > 0 && len(d.name) < maxName:
		d.name = append(bytes.Clone(d.name), p.Name...)
	}

	d.parts = append(d.parts, part{p.Args, again})
}

func (d *draft) text() []byte {
	if len(d.parts) == 1 {
		return d.parts[0].text
	}

	var text []byte
	for _, p := range d.parts {
		text = append(text, p.text...)
	}

	return text
}

func (d *draft) calls() []ToolCall {
	var list []ToolCall
	for _, text := range arguments(d.text(), d.parts, d.named) {
		list = append(list, ToolCall{ID: d.id, Kind: kindOf(d.kind), Name: d.name, Args: text})
	}

	return list
}

func kindOf(kind []byte) []byte {
	if len(kind) == 0 {
		return []byte("function")
	}

	return kind
}
