package traceindex

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/tokens"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
)

// ErrUnusable is what an index is that must be made again: it is of another trace or another version, or damaged.
var ErrUnusable = errors.New("the index of the trace is unusable")

func unusable(why string) error {
	return fault.Wrap(fault.Internal, fmt.Errorf("%w: %s", ErrUnusable, why), "read the index of a trace")
}

// ErrOtherChoice is the error of the sequences of subagents and of summaries, which no index has.
var ErrOtherChoice = errors.New("the index has no sequences of subagents and summaries")

// Index is an open index. Every call reads only the blocks that it needs. It is safe for concurrent use.
type Index struct {
	in    in
	table table
}

// Open opens an index of so many bytes. One that is not of the trace is ErrUnusable.
func Open(r io.ReaderAt, size int64, of Trace) (*Index, error) {
	i := &Index{in: in{r, size}}

	var err error
	if i.table, err = i.in.table(); err != nil {
		return nil, err
	}

	if i.table.Trace != of {
		return nil, unusable("it is of another trace")
	}

	return i, nil
}

// maxMemory bounds an index in memory.
const maxMemory = 256 << 20

// Of makes and opens the index of a trace in memory, without keeping it. An index of more than 256 MiB is a
// fault.Exhausted.
func Of(lines io.Reader) (*Index, error) {
	var blob memory
	if err := Build(lines, Trace{}, &blob); err != nil {
		return nil, err
	}

	return Open(bytes.NewReader(blob.Bytes()), int64(blob.Len()), Trace{})
}

// memory is a bounded buffer.
type memory struct{ bytes.Buffer }

func (m *memory) Write(p []byte) (int, error) {
	if m.Len()+len(p) > maxMemory {
		return 0, fault.New(fault.Exhausted, "the index of this trace has more than %d MiB: read the trace itself", maxMemory>>20)
	}

	return m.Buffer.Write(p)
}

// Turns returns at most limit turns after a turn. A page has at least one turn while there are more.
func (i *Index) Turns(after, limit int) (transcript.Page, error) {
	page, size := transcript.Page{Turns: []transcript.Turn{}}, 0

	for _, b := range i.table.Turns {
		if b.Last <= after {
			continue
		}

		if i.full(&page, size, limit) {
			return page, nil
		}

		var block []transcript.Turn
		if err := i.in.json(b.extent, &block); err != nil {
			return transcript.Page{}, err
		}

		for _, turn := range block {
			if turn.Turn <= after {
				continue
			}

			if i.full(&page, size, limit) {
				return page, nil
			}

			page.Turns = append(page.Turns, turn)
			size += turn.Size()
		}
	}

	return page, nil
}

// full ends a page that has enough.
func (*Index) full(page *transcript.Page, size, limit int) bool {
	n := len(page.Turns)
	if n == 0 || n < min(limit, transcript.MaxTurns) && size < transcript.MaxPage {
		return false
	}

	page.Next = page.Turns[n-1].Turn

	return true
}

// Part returns a range of the text of a turn's part; parts are numbered from 0 as in transcript.Turn.Parts. A missing
// turn or part is a fault.NotFound.
func (i *Index) Part(turn, part, offset int) (transcript.Range, error) {
	if e, some := i.table.Long[turn]; some {
		var long []longPart
		if err := i.in.json(e, &long); err != nil {
			return transcript.Range{}, err
		}

		n, found := slices.BinarySearchFunc(long, part, func(l longPart, n int) int { return cmp.Compare(l.Number, n) })
		if found {
			return i.longRange(&long[n], offset)
		}
	}

	page, err := i.Turns(turn-1, 1)
	if err != nil {
		return transcript.Range{}, err
	}

	if len(page.Turns) == 0 || page.Turns[0].Turn != turn || part >= len(page.Turns[0].Parts) {
		return transcript.Range{}, fault.New(fault.NotFound, "the trace has no part %d of turn %d", part, turn)
	}

	p := page.Turns[0].Parts[part]
	p.Bytes = len(p.Text)

	return transcript.RangeOf(p, 0, offset), nil
}

func (i *Index) longRange(l *longPart, offset int) (transcript.Range, error) {
	offset = min(offset, l.Bytes)
	// a character may begin before the range, and end after it
	first := max(offset-utf8.UTFMax, 0) / transcript.MaxRange
	last := min((offset+transcript.MaxRange+utf8.UTFMax)/transcript.MaxRange, len(l.Blocks)-1)

	p := l.Part

	for n := first; n <= last; n++ {
		data, err := i.in.block(l.Blocks[n])
		if err != nil {
			return transcript.Range{}, err
		}

		p.Text += string(data)
	}

	return transcript.RangeOf(p, first*transcript.MaxRange, offset), nil
}

// Tokens returns a view of the training sequences, see tokens.Book.View. With ErrOtherChoice the trace must be read.
func (i *Index) Tokens(choice sequence.Choice, w tokens.Window) (tokens.View, error) {
	if err := choice.Check(); err != nil {
		return tokens.View{}, err
	}

	if !i.table.covers(choice) {
		return tokens.View{}, ErrOtherChoice
	}

	if r := i.table.Refusal; r != nil {
		return tokens.View{}, fault.New(r.Kind, "%s", r.Text)
	}

	all := i.table.Sequences
	if w.Sequence >= max(len(all), 1) {
		return tokens.View{}, tokens.Missing(len(all), w.Sequence)
	}

	var view tokens.View
	if err := i.in.json(i.table.Summary, &view); err != nil || len(all) == 0 {
		return view, err
	}

	sequences, skipped := view.Sequences, view.Skipped
	view = tokens.View{}

	if err := i.in.json(all[w.Sequence].View, &view); err != nil {
		return tokens.View{}, err
	}

	view.Sequences, view.Skipped = sequences, skipped
	view.Start = min(w.Start, all[w.Sequence].Length)

	var err error

	view.Tokens, err = i.window(all[w.Sequence], view.Start, min(w.Limit, tokens.MaxTokens))

	return view, err
}

func (i *Index) window(s sequenceBlocks, start, limit int) ([]tokens.Token, error) {
	stop := min(start+limit, s.Length)
	list := make([]tokens.Token, 0, stop-start)

	for n := start / blockTokens; n*blockTokens < stop; n++ {
		if n >= len(s.Tokens) {
			return nil, unusable("tokens are missing")
		}

		data, err := i.in.block(s.Tokens[n])
		if err != nil {
			return nil, err
		}

		var c tokenBlock
		if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&c); err != nil {
			return nil, unusable("its tokens cannot be read")
		}

		block, ok := c.tokens()
		if !ok || len(block) != min(blockTokens, s.Length-n*blockTokens) {
			return nil, unusable("its tokens do not fit together")
		}

		list = append(list, block[max(start-n*blockTokens, 0):min(stop-n*blockTokens, len(block))]...)
	}

	return list, nil
}
