// Package held sums the time for which a gateway held back the calls of an agent, and keeps the sum across restarts of the gateway.
package held

import (
	"slices"
	"time"
)

// Time is a union of spans: overlaps count once. The zero value is empty.
type Time struct {
	Settled time.Duration `json:"settled,omitempty"` // sum of the spans that no later span overlaps
	Spans   []Span        `json:"spans,omitempty"`   // the other spans, sorted and disjoint
}

// Span is an interval of time.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Add adds a span. An empty span, or one that ends before it begins, adds nothing.
func (t *Time) Add(s Span) {
	if !s.To.After(s.From) {
		return
	}
	apart := make([]Span, 0, len(t.Spans)+1)
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
	at, _ := slices.BinarySearchFunc(apart, s.From, func(o Span, from time.Time) int { return o.From.Compare(from) })
	t.Spans = slices.Insert(apart, at, s)
}

// Settle merges the spans that end before that time: no later span begins before it.
func (t *Time) Settle(before time.Time) {
	for len(t.Spans) > 0 && !t.Spans[0].To.After(before) {
		t.Settled += t.Spans[0].length()
		t.Spans = t.Spans[1:]
	}
}

// With returns the union with further spans. It does not change t.
func (t Time) With(further ...Span) Time {
	for _, s := range further {
		t.Add(s)
	}
	return t
}

// Sum returns the total length.
func (t Time) Sum() time.Duration {
	sum := t.Settled
	for _, s := range t.Spans {
		sum += s.length()
	}
	return sum
}

func (s Span) length() time.Duration { return s.To.Sub(s.From) }
