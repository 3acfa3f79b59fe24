package sequence

import (
	"fmt"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// RoutedExperts says where the routed experts of a sequence are: a row for each of its first Rows tokens. The last
// token of the sequence has none, since the engine has not processed it.
type RoutedExperts struct {
	Rows int `json:"rows"`

	// as in rollout.RoutedExperts
	Width  int `json:"width,omitempty"`
	Layers int `json:"layers,omitempty"`
	TopK   int `json:"top_k,omitempty"`

	// the rows, in order
	Parts []ExpertPart `json:"parts"`
	// Missing says why further tokens, but for the last, have no row; "": all have one.
	Missing string `json:"missing,omitempty"`
}

// ExpertPart is rows of a sequence that are together in the file of the rollout's rows.
type ExpertPart struct {
	Rows int                `json:"rows"`
	Type rollout.ExpertType `json:"dtype"`

	// place in the file, in bytes
	At int64 `json:"at"`
}

// expertRows are the rows of a call from its first token on.
type expertRows struct {
	parts []ExpertPart

	width, layers, topK int
}

// expertBook has the rows of the turns so far. Each turn that has any has one for each token but for its last.
type expertBook struct {
	rows map[int]expertRows

	// why the other turns have none
	missing map[int]string
}

// addTurn adds a turn.
func (b *expertBook) addTurn(t *rollout.Turn) {
	x := t.RoutedExperts
	if x == nil {
		return
	}

	if b.rows == nil {
		b.rows, b.missing = map[int]expertRows{}, map[int]string{}
	}

	before := firstRows(b.rows[x.Base].parts, x.Start)

	switch {
	case x.Missing != "":
		b.missing[t.Turn] = x.Missing
	case countRows(before) < x.Start:
		b.missing[t.Turn] = fmt.Sprintf("those of turn %d are missing", x.Base)
	default:
		own := ExpertPart{Rows: x.Rows, Type: x.Type, At: x.At}
		b.rows[t.Turn] = expertRows{append(before, own), x.Width, x.Layers, x.TopK}
	}
}

// firstRows returns the parts of the first n rows, or of all if there are fewer.
func firstRows(parts []ExpertPart, n int) []ExpertPart {
	out := slices.Clone(parts)

	for i := range out {
		if n < out[i].Rows {
			out[i].Rows = n
		}

		if n -= out[i].Rows; out[i].Rows == 0 {
			return out[:i]
		}
	}

	return out
}

func countRows(parts []ExpertPart) (n int) {
	for _, p := range parts {
		n += p.Rows
	}

	return n
}

// setRows gives a sequence the rows of the turn that was added to it last. Without any it keeps those of the turns
// before, which are its first.
func (b *expertBook) setRows(s *Sequence, t *rollout.Turn) {
	if t.RoutedExperts == nil && s.RoutedExperts == nil {
		return
	}

	if s.RoutedExperts == nil {
		s.RoutedExperts = &RoutedExperts{Parts: []ExpertPart{}}
	}

	of := s.RoutedExperts

	rows, ok := b.rows[t.Turn]
	if !ok {
		why := b.missing[t.Turn]
		if why == "" {
			why = "they were not asked for"
		}

		of.Missing = fmt.Sprintf("turn %d: %s", t.Turn, why)

		return
	}

	*of = RoutedExperts{
		Rows: countRows(rows.parts), Width: rows.width, Layers: rows.layers, TopK: rows.topK, Parts: rows.parts,
	}
}
