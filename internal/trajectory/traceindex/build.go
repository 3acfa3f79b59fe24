package traceindex

import (
	"bytes"
	"encoding/gob"
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/tokens"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// Builder writes an index. Turns are added in the order in which their calls began. Besides a block it holds the
// tokens of all sequences, see tokens.Book. It is not safe for concurrent use.
type Builder struct {
	out          out
	table        table
	conversation *transcript.Conversation

	// nil: the turns have no sequences
	book *tokens.Book

	// turns that are not written yet, and the bytes of their texts
	pending []transcript.Turn
	bytes   int
}

// NewBuilder makes a Builder that writes to w.
func NewBuilder(w io.Writer) *Builder {
	b := &Builder{
		out:          out{w: w},
		table:        table{Turns: []turnBlock{}, Long: map[int]extent{}, Sequences: []sequenceBlocks{}},
		conversation: transcript.NewConversation(),
	}
	// the choice is a known one
	b.book, _ = tokens.NewBook(sequence.Choice{})

	return b
}

// Build writes the index of a trace, JSON lines of rollout.Turn.
func Build(lines io.Reader, of Trace, w io.Writer) error {
	b := NewBuilder(w)
	if err := turns.Each(lines, turns.Unbounded, b.Add); err != nil {
		return err
	}

	return b.Finish(of)
}

// Add adds a turn. Its errors are those of the writer.
func (b *Builder) Add(t *rollout.Turn) error {
	b.table.Subagents = b.table.Subagents || subagentMade(t)

	if b.book != nil {
		if err := b.book.Add(t); err != nil {
			b.table.Refusal = &refusal{fault.KindOf(err), err.Error()}
			b.book = nil
		}
	}

	turn := b.conversation.Turn(t)
	if err := b.addLong(&turn); err != nil {
		return err
	}

	turn.Bound()

	b.pending = append(b.pending, turn)
	if b.bytes += turn.Size(); b.bytes >= turnBytes || len(b.pending) == transcript.MaxTurns {
		return b.flush()
	}

	return nil
}

// addLong writes the texts that a page does not have whole.
func (b *Builder) addLong(t *transcript.Turn) error {
	var long []longPart

	for i, p := range t.Parts {
		if i < transcript.MaxParts && p.Fits() {
			continue
		}

		l := longPart{Part: p, Number: i}
		l.Text, l.Bytes = "", len(p.Text)

		for rest := p.Text; rest != ""; {
			n := min(len(rest), transcript.MaxRange)

			e, err := b.out.block([]byte(rest[:n]))
			if err != nil {
				return err
			}

			l.Blocks = append(l.Blocks, e)
			rest = rest[n:]
		}

		long = append(long, l)
	}

	if long == nil {
		return nil
	}

	e, err := b.out.json(long)
	b.table.Long[t.Turn] = e

	return err
}

func (b *Builder) flush() error {
	if len(b.pending) == 0 {
		return nil
	}

	e, err := b.out.json(b.pending)
	b.table.Turns = append(b.table.Turns, turnBlock{e, b.pending[len(b.pending)-1].Turn})
	clear(b.pending)
	b.pending, b.bytes = b.pending[:0], 0

	return err
}

// Finish ends the index of a trace.
func (b *Builder) Finish(of Trace) error {
	b.table.Trace = of

	if err := b.flush(); err != nil {
		return err
	}

	if b.book != nil {
		if err := b.addSequences(); err != nil {
			return err
		}
	}

	return b.out.finish(b.table)
}

func (b *Builder) addSequences() error {
	view, err := b.book.View(tokens.Window{})
	if err != nil {
		return err
	}

	all := view.Sequences

	view.Spans, view.Break, view.Least, view.Tokens = []sequence.Span{}, nil, []tokens.Unlikely{}, []tokens.Token{}
	if b.table.Summary, err = b.out.json(view); err != nil {
		return err
	}

	for n, s := range all {
		blocks, err := b.addSequence(n, s.Length)
		if err != nil {
			return err
		}

		b.table.Sequences = append(b.table.Sequences, blocks)
	}

	return nil
}

func (b *Builder) addSequence(number, length int) (blocks sequenceBlocks, err error) {
	view, err := b.book.View(tokens.Window{Sequence: number})
	if err != nil {
		return blocks, err
	}

	blocks.Length = length
	if blocks.View, err = b.out.json(headOf(view)); err != nil {
		return blocks, err
	}

	for start := 0; start < length; start += blockTokens {
		var data bytes.Buffer
		if err := gob.NewEncoder(&data).Encode(columns(b.book.Tokens(number, start, start+blockTokens))); err != nil {
			return blocks, fault.Wrap(fault.Internal, err, "encode tokens")
		}

		e, err := b.out.block(data.Bytes())
		if err != nil {
			return blocks, err
		}

		blocks.Tokens = append(blocks.Tokens, e)
	}

	return blocks, nil
}

func columns(list []tokens.Token) (c tokenBlock) {
	numbers := map[string]int32{}

	for _, t := range list {
		c.IDs, c.Trained = append(c.IDs, t.ID), append(c.Trained, t.Trained)
		c.Sampled = append(c.Sampled, t.Logprob != nil)

		if t.Logprob != nil {
			c.Logprobs = append(c.Logprobs, *t.Logprob)
		}

		number := int32(0)
		if t.Text != nil {
			if number = numbers[*t.Text]; number == 0 {
				c.Text = append(c.Text, *t.Text)
				number = int32(len(c.Text))
				numbers[*t.Text] = number
			}
		}

		c.Texts = append(c.Texts, number)
	}

	return c
}

// tokens is the reverse of columns; false: the columns do not fit together.
func (c *tokenBlock) tokens() ([]tokens.Token, bool) {
	if len(c.Trained) != len(c.IDs) || len(c.Texts) != len(c.IDs) || len(c.Sampled) != len(c.IDs) {
		return nil, false
	}

	list, logprobs := make([]tokens.Token, len(c.IDs)), c.Logprobs

	for i := range list {
		list[i].ID, list[i].Trained = c.IDs[i], c.Trained[i]

		if number := int(c.Texts[i]); number > len(c.Text) || number < 0 {
			return nil, false
		} else if number > 0 {
			list[i].Text = &c.Text[number-1]
		}

		if c.Sampled[i] {
			if len(logprobs) == 0 {
				return nil, false
			}

			list[i].Logprob, logprobs = &logprobs[0], logprobs[1:]
		}
	}

	return list, true
}
