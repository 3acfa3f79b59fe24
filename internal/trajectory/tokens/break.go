package tokens

import (
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

const (
	// an excerpt of a break: tokens before and after the first that differs
	excerptBefore = 12
	excerptAfter  = 48

	// meeting is how many equal tokens end a difference.
	meeting = 3
)

// breakOf returns the break of a sequence; nil: it does not break.
func (b *Book) breakOf(number int) *Break {
	all := b.trajectory.Sequences
	s := &all[number]

	if s.Break == nil {
		return nil
	}

	// others may have begun before it ended
	next := slices.IndexFunc(all[number+1:], func(n sequence.Sequence) bool {
		return n.Lineage == s.Lineage && n.Spans[0].Turn > s.Break.AfterTurn
	})
	if next < 0 {
		return nil
	}

	next += number + 1
	first := all[next].Spans[0]
	brk := &Break{At: s.Break.At, Turn: first.Turn, Next: next, Fallback: b.fallbacks[first.Turn]}

	for _, span := range s.Spans {
		if brk.At >= span.Start && brk.At < span.Stop {
			brk.ReplyOf = span.Turn
		}
	}

	brk.Before = b.Tokens(number, brk.At-excerptBefore, brk.At)
	brk.Sampled = b.Tokens(number, brk.At, brk.At+excerptAfter)
	// What follows the first prompt of the next sequence is a reply of its own.
	brk.Rendered = b.Tokens(next, brk.At, min(brk.At+excerptAfter, first.Start))
	brk.SampledDiffer, brk.RenderedDiffer = meet(brk.Sampled, brk.Rendered)
	brk.Cause = brk.cause(s.End)

	return brk
}

// cause compares the two spellings.
func (brk *Break) cause(end sequence.End) Cause {
	switch {
	case end == sequence.EndCompacted:
		return Compacted
	case brk.ReplyOf == 0:
		return PromptChanged
	}

	sampled, known := textOf(brk.Sampled[:brk.SampledDiffer])
	rendered, alsoKnown := textOf(brk.Rendered[:brk.RenderedDiffer])

	if known && alsoKnown && sampled == rendered && sampled != "" {
		return Retokenized
	}

	return Rendered
}

// meet returns how many tokens of a and of b differ before both continue with the same tokens; 0, 0: they do not.
func meet(a, b []Token) (inA, inB int) {
	for sum := 1; sum <= len(a)+len(b); sum++ {
		for i := max(0, sum-len(b)); i <= min(sum, len(a)); i++ {
			if j := sum - i; sameTokens(a[i:], b[j:]) {
				return i, j
			}
		}
	}

	return 0, 0
}

// sameTokens reports whether two lists begin with the same tokens, enough to be no accident.
func sameTokens(a, b []Token) bool {
	if len(a) < meeting || len(b) < meeting {
		return false
	}

	for i := range meeting {
		if a[i].ID != b[i].ID {
			return false
		}
	}

	return true
}

// textOf returns the text of tokens; false if one has none.
func textOf(tokens []Token) (string, bool) {
	var b strings.Builder

	for _, t := range tokens {
		if t.Text == nil {
			return "", false
		}

		b.WriteString(*t.Text)
	}

	return b.String(), true
}
