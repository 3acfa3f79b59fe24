package tokens

import (
	"io"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// Window selects tokens of a sequence.
type Window struct {
	// number of the sequence, from 0
	Sequence int

	// index of the first token
	Start int

	// number of tokens, at most MaxTokens
	Limit int
}

// Read makes the view of a trace, JSON lines of rollout.Turn. It reads the trace twice, by open: the sequences are
// built first, then the texts and log probabilities of what is shown are read. A missing sequence is a fault.NotFound.
func Read(open func() (io.ReadCloser, error), subagents sequence.Subagents, w Window) (View, error) {
	var trajectory sequence.Trajectory

	err := reading(open, func(lines io.Reader) (err error) {
		trajectory, err = sequence.Read(lines, subagents)
		return err
	})
	if err != nil {
		return View{}, err
	}

	all := trajectory.Sequences
	if w.Sequence >= max(len(all), 1) {
		return View{}, fault.New(fault.NotFound, "sequence: there are %d sequences, numbered from 0, got %d", len(all), w.Sequence)
	}

	b := newBuilder(trajectory, w)
	err = reading(open, func(lines io.Reader) error {
		return turns.Each(lines, turns.Unbounded, func(t *rollout.Turn) error {
			b.add(t)
			return nil
		})
	})

	return b.view(), err
}

func reading(open func() (io.ReadCloser, error), read func(io.Reader) error) error {
	lines, err := open()
	if err != nil {
		return err
	}
	defer lines.Close()

	return read(lines)
}

// builder makes a view. It adds to the sequences what they do not have: texts, and log probabilities of replies that
// are not trained on.
type builder struct {
	sequences []sequence.Sequence
	window    Window
	out       View

	// replies of the window's sequence: index of the first token, by turn
	starts map[int]int

	// texts of the ids that are shown; "" until one is found
	texts map[int32]string

	// of the sampled tokens of the window's sequence that are shown, by index
	own      map[int]string
	logprobs map[int]float64
}

func newBuilder(trajectory sequence.Trajectory, w Window) *builder {
	b := &builder{
		sequences: trajectory.Sequences,
		window:    w,
		out: View{
			Sequences: make([]Sequence, len(trajectory.Sequences)),
			Skipped:   trajectory.Skipped,
			Sequence:  w.Sequence,
			Spans:     []sequence.Span{},
			Histogram: make([]int, len(Bounds())+1),
			Least:     []Unlikely{},
			Tokens:    []Token{},
		},
		starts:   map[int]int{},
		texts:    map[int32]string{},
		own:      map[int]string{},
		logprobs: map[int]float64{},
	}

	for i := range b.sequences {
		b.out.Sequences[i] = summaryOf(&b.sequences[i])
	}

	if len(b.sequences) > 0 {
		b.choose()
	}

	return b
}

func summaryOf(s *sequence.Sequence) Sequence {
	out := Sequence{
		Lineage: s.Lineage, Branch: s.Branch, Length: len(s.TokenIDs), Trained: s.Trained(), End: s.End,
		FirstTurn: s.Spans[0].Turn, LastTurn: s.Spans[len(s.Spans)-1].Turn,
	}
	for _, span := range s.Spans {
		out.Sampled += span.Stop - span.Start
	}

	return out
}

// choose prepares the window and the break of its sequence.
func (b *builder) choose() {
	s := &b.sequences[b.window.Sequence]

	b.out.Spans = s.Spans
	for _, span := range s.Spans {
		b.starts[span.Turn] = span.Start
	}

	b.window.Start = min(b.window.Start, len(s.TokenIDs))
	b.window.Limit = min(b.window.Limit, MaxTokens, len(s.TokenIDs)-b.window.Start)
	b.needTexts(s.TokenIDs[b.window.Start : b.window.Start+b.window.Limit])
	b.out.Break = b.breakOf(b.window.Sequence)
}

func (b *builder) needTexts(ids []int32) {
	for _, id := range ids {
		b.texts[id] = ""
	}
}

// shows reports whether the view has the token at an index of the window's sequence.
func (b *builder) shows(i int) bool {
	if i >= b.window.Start && i < b.window.Start+b.window.Limit {
		return true
	}

	brk := b.out.Break

	return brk != nil && i >= brk.At-excerptBefore && i < brk.At+excerptAfter
}

// add adds a turn.
func (b *builder) add(t *rollout.Turn) {
	if brk := b.out.Break; brk != nil && brk.Turn == t.Turn {
		brk.Fallback = t.Fallback
	}

	start, inSequence := b.starts[t.Turn]
	if len(t.CompletionTokens) == len(t.CompletionTokenIDs) {
		b.addTexts(t, start, inSequence)
	}

	if inSequence && len(t.PerTokenLogps) == len(t.CompletionTokenIDs) {
		b.addLogprobs(start, t.PerTokenLogps)
	}
}

func (b *builder) addTexts(t *rollout.Turn, start int, inSequence bool) {
	for i, id := range t.CompletionTokenIDs {
		if strings.HasPrefix(t.CompletionTokens[i], "token_id:") {
			// the engine gave the id in place of the text
			return
		}

		if known, shown := b.texts[id]; shown && known == "" {
			b.texts[id] = text.HeadUTF8(t.CompletionTokens[i], maxText)
		}

		if inSequence && b.shows(start+i) {
			b.own[start+i] = text.HeadUTF8(t.CompletionTokens[i], maxText)
		}
	}
}

func (b *builder) addLogprobs(start int, logprobs []float64) {
	for i, logprob := range logprobs {
		bin := slices.IndexFunc(Bounds(), func(bound float64) bool { return logprob >= bound })
		if bin < 0 {
			bin = len(Bounds())
		}

		b.out.Histogram[bin]++
		b.out.addUnlikely(Unlikely{start + i, logprob})

		if b.shows(start + i) {
			b.logprobs[start+i] = logprob
		}
	}
}

// addUnlikely keeps the least likely tokens in order.
func (v *View) addUnlikely(u Unlikely) {
	n := len(v.Least)
	if n == maxLeast && u.Logprob >= v.Least[n-1].Logprob {
		return
	}

	at, _ := slices.BinarySearchFunc(v.Least, u, func(a, b Unlikely) int {
		if a.Logprob <= b.Logprob {
			return -1
		}

		return 1
	})

	v.Least = slices.Insert(v.Least, at, u)
	v.Least = v.Least[:min(len(v.Least), maxLeast)]
}

// view returns the view. The builder must not be used afterwards.
func (b *builder) view() View {
	if len(b.sequences) > 0 {
		w := b.window
		b.out.Start = w.Start
		b.out.Tokens = b.tokens(w.Sequence, w.Start, w.Start+w.Limit)
		b.spell()
	}

	return b.out
}

// tokens returns the tokens of a sequence from start to stop.
func (b *builder) tokens(number, start, stop int) []Token {
	s := &b.sequences[number]
	start, stop = max(start, 0), min(stop, len(s.TokenIDs))

	out := make([]Token, 0, max(stop-start, 0))
	for i := start; i < stop; i++ {
		token := Token{ID: s.TokenIDs[i], Trained: s.LossMask[i] == 1}
		if known := b.texts[token.ID]; known != "" {
			token.Text = &known
		}

		if number == b.window.Sequence {
			if own, sampled := b.own[i]; sampled {
				token.Text = &own
			}

			if logprob, known := b.logprobs[i]; known {
				token.Logprob = &logprob
			}
		}

		out = append(out, token)
	}

	return out
}
