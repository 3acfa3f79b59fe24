package gateway

import (
	"slices"
	"time"
)

// HeldTime is a union of spans: overlaps count once. The zero value is empty.
type HeldTime struct {
	// sum of the spans that no later span overlaps
	Settled time.Duration `json:"settled,omitempty"`

	// the other spans, sorted and disjoint
	Spans []HeldSpan `json:"spans,omitempty"`
}

// HeldSpan is an interval of time.
type HeldSpan struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Add adds a span. An empty span, or one that ends before it begins, adds nothing.
func (t *HeldTime) Add(s HeldSpan) {
	if !s.To.After(s.From) {
		return
	}

	apart := make([]HeldSpan, 0, len(t.Spans)+1)
	for _, o := range t.Spans {
		if o.To.Before(s.From) || s.To.Before(o.From) {
			apart = append(apart, o)
			continue
		}

		if o.From.Before(s.From) {
			s.From = o.From
		}

		if o.To.After(s.To) {
			s.To = o.To
		}
	}

	at, _ := slices.BinarySearchFunc(apart, s.From, func(o HeldSpan, from time.Time) int {
		return o.From.Compare(from)
	})
	t.Spans = slices.Insert(apart, at, s)
}

// Settle merges the spans that end before that time: no later span begins before it.
func (t *HeldTime) Settle(before time.Time) {
	for len(t.Spans) > 0 && !t.Spans[0].To.After(before) {
		t.Settled += t.Spans[0].length()
		t.Spans = t.Spans[1:]
	}
}

// With returns the union with further spans. It does not change t.
func (t HeldTime) With(further ...HeldSpan) HeldTime {
	for _, s := range further {
		t.Add(s)
	}

	return t
}

// Sum returns the total length.
func (t HeldTime) Sum() time.Duration {
	sum := t.Settled
	for _, s := range t.Spans {
		sum += s.length()
	}

	return sum
}

func (s HeldSpan) length() time.Duration { return s.To.Sub(s.From) }
