package transcript

import (
	"strings"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/text"
)

// Bounds of an answer.
const (
	// MaxTurns bounds the turns of a page, MaxParts the parts of each.
	MaxTurns = 200
	MaxParts = 500

	// MaxPage bounds the texts of a page in bytes: a page ends after the turn that reaches it.
	MaxPage = 4 << 20

	// maxText bounds a text in a page, MaxRange a range of a text, in bytes.
	maxText  = 32 << 10
	MaxRange = 256 << 10

	// maxName bounds the name of a tool and the id of a call, in characters.
	maxName = 200
)

// Page is a part of a conversation. Next is the argument after of the next page; 0: this is the last.
type Page struct {
	Turns []Turn `json:"turns"`
	Next  int    `json:"next,omitempty"`
}

// Range is a range of a part's text. Next is the offset of the next range; 0: this is the last.
type Range struct {
	Part

	// place of Text within the whole text, in bytes
	Offset int `json:"offset"`
	Next   int `json:"next,omitempty"`
}

// Bound shortens the turn to what a page has of it. The turn keeps the memory of the parts that were cut off.
func (t *Turn) Bound() {
	if omitted := len(t.Parts) - MaxParts; omitted > 0 {
		t.Parts, t.PartsOmitted = t.Parts[:MaxParts], omitted
	}

	for i := range t.Parts {
		t.Parts[i].bound()
	}
}

// Size is the length of the turn's texts in bytes.
func (t *Turn) Size() (bytes int) {
	for _, p := range t.Parts {
		bytes += len(p.Text)
	}

	return bytes
}

// Fits reports whether a page has the whole text.
func (p *Part) Fits() bool { return len(p.Text) <= maxText }

// bound shortens the text at a character's end. It copies the beginning, so that the rest is freed.
func (p *Part) bound() {
	p.boundNames()

	if !p.Fits() {
		p.Bytes = len(p.Text)
		p.Text = strings.Clone(p.Text[:runeStart(p.Text, maxText)])
	}
}

func (p *Part) boundNames() {
	p.CallID, p.Name = text.Head(p.CallID, maxName), text.Head(p.Name, maxName)
}

// RangeOf returns a range of a part's text. The part has the bytes of the text from its byte begin on, as many as the
// range needs and utf8.UTFMax more on either side, and Bytes is the length of the whole.
func RangeOf(p Part, begin, offset int) Range {
	from := runeStart(p.Text, min(offset, p.Bytes)-begin)
	to := len(p.Text)

	r := Range{Part: p, Offset: begin + from}
	r.boundNames()

	if to-from > MaxRange {
		to = runeStart(p.Text, from+MaxRange)
	}

	if begin+to < p.Bytes {
		r.Next = begin + to
	}

	r.Text = p.Text[from:to]

	return r
}

// runeStart returns the start of the character that has the byte at i.
func runeStart(s string, i int) int {
	for back := 0; back < utf8.UTFMax && i > 0 && i < len(s) && !utf8.RuneStart(s[i]); back++ {
		i--
	}

	return i
}
