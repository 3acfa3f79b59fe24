package transcript

import (
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// Bounds of an answer.
const (
	// MaxTurns bounds the turns of a page, MaxParts the parts of each.
	MaxTurns = 200
	MaxParts = 500

	// maxPage bounds the texts of a page in bytes: a page ends after the turn that reaches it.
	maxPage = 4 << 20

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

	// of Text within the whole text, in bytes
	Offset int `json:"offset"`
	Next   int `json:"next,omitempty"`
}

// errRead ends the reading of a trace.
var errRead = errors.New("enough of the trace is read")

// Read returns at most limit turns of a trace, JSON lines of rollout.Turn, after a turn. A page has at least one turn
// while there are more. Errors are those of turns.Each.
func Read(lines io.Reader, after, limit int) (Page, error) {
	page, size := Page{Turns: []Turn{}}, 0
	conversation := newConversation()

	err := turns.Each(lines, turns.Unbounded, func(t *rollout.Turn) error {
		before, fresh := conversation.follow(t)
		if t.Turn <= after {
			return nil
		}

		if len(page.Turns) >= min(limit, MaxTurns) || size >= maxPage {
			page.Next = page.Turns[len(page.Turns)-1].Turn
			return errRead
		}

		turn := newTurn(t)
		turn.MessagesBefore = before
		turn.Parts = slices.Concat([]Part{}, fresh, replyParts(t))

		if omitted := len(turn.Parts) - MaxParts; omitted > 0 {
			turn.Parts, turn.PartsOmitted = turn.Parts[:MaxParts], omitted
		}

		for i := range turn.Parts {
			turn.Parts[i].cut()
			size += len(turn.Parts[i].Text)
		}

		page.Turns = append(page.Turns, turn)

		return nil
	})
	if errors.Is(err, errRead) {
		err = nil
	}

	return page, err
}

// cut shortens the text to maxText, at a character's end. It copies the beginning, so that the rest is freed.
func (p *Part) cut() {
	p.CallID, p.Name = text.Head(p.CallID, maxName), text.Head(p.Name, maxName)

	if len(p.Text) > maxText {
		p.Bytes = len(p.Text)
		p.Text = strings.Clone(p.Text[:runeStart(p.Text, maxText)])
	}
}

// ReadRange returns a range of the text of a turn's part; parts are numbered from 0 as in Turn.Parts. A missing turn or
// part is a fault.NotFound.
func ReadRange(lines io.Reader, turn, part, offset int) (Range, error) {
	var found *Range

	conversation := newConversation()

	err := turns.Each(lines, turns.Unbounded, func(t *rollout.Turn) error {
		_, fresh := conversation.follow(t)
		if t.Turn < turn {
			return nil
		}

		if parts := slices.Concat(fresh, replyParts(t)); t.Turn == turn && part < len(parts) {
			found = rangeOf(parts[part], offset)
		}

		return errRead
	})

	switch {
	case err != nil && !errors.Is(err, errRead):
		return Range{}, err
	case found == nil:
		return Range{}, fault.New(fault.NotFound, "the trace has no part %d of turn %d", part, turn)
	default:
		return *found, nil
	}
}

func rangeOf(p Part, offset int) *Range {
	whole := p.Text
	begin := runeStart(whole, min(offset, len(whole)))
	end := len(whole)

	r := Range{Part: p, Offset: begin}
	r.CallID, r.Name = text.Head(p.CallID, maxName), text.Head(p.Name, maxName)

	if end-begin > MaxRange {
		end = runeStart(whole, begin+MaxRange)
		r.Next = end
	}

	r.Text, r.Bytes = whole[begin:end], len(whole)

	return &r
}

// runeStart returns the start of the character that has the byte at i.
func runeStart(s string, i int) int {
	for back := 0; back < utf8.UTFMax && i > 0 && i < len(s) && !utf8.RuneStart(s[i]); back++ {
		i--
	}

	return i
}
