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

// maxTexts bounds the memory of a trace's distinct texts, in bytes: tokens beyond have none.
const maxTexts = 64 << 20

// Window selects tokens of a sequence.
type Window struct {
	// number of the sequence, from 0
	Sequence int

	// index of the first token
	Start int

	// number of tokens, at most MaxTokens
	Limit int
}

// Book has all tokens of a trace's sequences, at most sequence.MaxTokens: about 200 MiB. Turns are added first, in the
// order in which their calls began; then it is read. It is not safe for concurrent use.
type Book struct {
	builder    *sequence.Builder
	trajectory *sequence.Trajectory
	summaries  []Sequence

	// distinct texts, and their numbers
	texts   []string
	numbers map[string]int32
	bytes   int

	// number of the first text of an id
	byID map[int32]int32

	// by turn
	replies   map[int]reply
	fallbacks map[int]string
}

// reply is what a sequence does not have of its turns.
type reply struct {
	// numbers of the tokens' texts; shorter than the reply: the others have none
	texts []int32

	// log probabilities of all its tokens, or of none
	logprobs []float64
}

// NewBook makes a Book without turns.
func NewBook(choice sequence.Choice) (*Book, error) {
	builder, err := sequence.NewBuilder(choice)

	return &Book{
		builder: builder, numbers: map[string]int32{}, byID: map[int32]int32{},
		replies: map[int]reply{}, fallbacks: map[int]string{},
	}, err
}

// Read makes the view of a trace, JSON lines of rollout.Turn. A missing sequence is a fault.NotFound.
func Read(lines io.Reader, choice sequence.Choice, w Window) (View, error) {
	b, err := NewBook(choice)
	if err != nil {
		return View{}, err
	}

	if err := turns.Each(lines, turns.Unbounded, b.Add); err != nil {
		return View{}, err
	}

	return b.View(w)
}

// Add adds a turn. Its errors are those of sequence.Builder.AddBounded.
func (b *Book) Add(t *rollout.Turn) error {
	if err := b.builder.AddBounded(t); err != nil {
		return err
	}

	var r reply
	if len(t.CompletionTokens) == len(t.CompletionTokenIDs) {
		// tokens of prompts have the texts, too
		r.texts = b.addTexts(t)
	}

	if b.builder.Skips(t) {
		return nil
	}

	if t.Fallback != "" {
		b.fallbacks[t.Turn] = t.Fallback
	}

	if len(t.PerTokenLogps) == len(t.CompletionTokenIDs) {
		r.logprobs = t.PerTokenLogps
	}

	b.replies[t.Turn] = r

	return nil
}

func (b *Book) addTexts(t *rollout.Turn) []int32 {
	numbers := make([]int32, 0, len(t.CompletionTokens))

	for i, id := range t.CompletionTokenIDs {
		if strings.HasPrefix(t.CompletionTokens[i], "token_id:") {
			// the engine gave the id in place of the text
			break
		}

		number, ok := b.numberOf(text.HeadUTF8(t.CompletionTokens[i], maxText))
		if !ok {
			break
		}

		numbers = append(numbers, number)

		if known, found := b.byID[id]; !found || b.texts[known] == "" {
			b.byID[id] = number
		}
	}

	return numbers
}

// numberOf returns the number of a text; false: there are too many.
func (b *Book) numberOf(text string) (int32, bool) {
	if number, known := b.numbers[text]; known {
		return number, true
	}

	if b.bytes += len(text); b.bytes > maxTexts {
		return 0, false
	}

	number := int32(len(b.texts))
	b.texts = append(b.texts, strings.Clone(text))
	b.numbers[b.texts[number]] = number

	return number, true
}

// View returns a window of a sequence, with what is known of the sequence as a whole. A missing sequence is a
// fault.NotFound; a trace without sequences has an empty view of sequence 0.
func (b *Book) View(w Window) (View, error) {
	all := b.sequences()
	if w.Sequence >= max(len(all), 1) {
		return View{}, Missing(len(all), w.Sequence)
	}

	view := View{
		Sequences: b.summaries,
		Skipped:   b.trajectory.Skipped,
		Sequence:  w.Sequence,
		Spans:     []sequence.Span{},
		Histogram: make([]int, len(Bounds())+1),
		Least:     []Unlikely{},
		Tokens:    []Token{},
	}

	if len(all) == 0 {
		return view, nil
	}

	s := &all[w.Sequence]
	view.Spans = s.Spans
	view.Break = b.breakOf(w.Sequence)

	for _, span := range s.Spans {
		for i, logprob := range b.replies[span.Turn].logprobs {
			view.addLogprob(span.Start+i, logprob)
		}
	}

	view.Start = min(w.Start, len(s.TokenIDs))
	view.Tokens = b.Tokens(w.Sequence, view.Start, view.Start+min(w.Limit, MaxTokens))

	return view, nil
}

// Missing is the error of a sequence that does not exist.
func Missing(sequences, number int) error {
	return fault.New(fault.NotFound, "sequence: there are %d sequences, numbered from 0, got %d", sequences, number)
}

// sequences ends the adding of turns.
func (b *Book) sequences() []sequence.Sequence {
	if b.trajectory != nil {
		return b.trajectory.Sequences
	}

	trajectory := b.builder.Trajectory()
	b.trajectory = &trajectory
	b.summaries = make([]Sequence, len(trajectory.Sequences))

	for i := range trajectory.Sequences {
		b.summaries[i] = summaryOf(&trajectory.Sequences[i])
	}

	return trajectory.Sequences
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

func (v *View) addLogprob(at int, logprob float64) {
	bin := slices.IndexFunc(Bounds(), func(bound float64) bool { return logprob >= bound })
	if bin < 0 {
		bin = len(Bounds())
	}

	v.Histogram[bin]++
	v.addUnlikely(Unlikely{at, logprob})
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

// Tokens returns the tokens of a sequence from start to stop, as far as there are any. View must have been
// called before.
func (b *Book) Tokens(number, start, stop int) []Token {
	s := &b.trajectory.Sequences[number]
	start, stop = max(start, 0), min(stop, len(s.TokenIDs))

	out := make([]Token, 0, max(stop-start, 0))
	span := 0

	for i := start; i < stop; i++ {
		for span < len(s.Spans) && i >= s.Spans[span].Stop {
			span++
		}

		token := Token{ID: s.TokenIDs[i], Trained: s.LossMask[i] == 1}
		if known, found := b.byID[token.ID]; found && b.texts[known] != "" {
			token.Text = &b.texts[known]
		}

		if span < len(s.Spans) && i >= s.Spans[span].Start {
			b.replies[s.Spans[span].Turn].describe(&token, i-s.Spans[span].Start, b.texts)
		}

		out = append(out, token)
	}

	return out
}

// describe adds to a sampled token its own text and its log probability.
func (r reply) describe(token *Token, i int, texts []string) {
	if i < len(r.texts) {
		token.Text = &texts[r.texts[i]]
	}

	if i < len(r.logprobs) {
		token.Logprob = &r.logprobs[i]
	}
}
