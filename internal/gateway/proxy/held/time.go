// Package held sums the time for which a gateway held the calls of an agent back, and keeps it over the gateway's death.
package held

import (
	"slices"
	"time"
)

// Time is the union of spans: what overlaps counts once. The zero value is no time.
type Time struct {
	Settled time.Duration `json:"settled,omitempty"` // of spans that no further one overlaps
	Spans   []Span        `json:"spans,omitempty"`   // the others, in order and apart from each other
}

// Span is a stretch of time.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Add takes in one span. An empty one, or one that ends before it begins, adds nothing.
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

// Settle forgets where the spans were that end before a time: no further span begins before it.
func (t *Time) Settle(before time.Time) {
	for len(t.Spans) > 0 && !t.Spans[0].To.After(before) {
		t.Settled += t.Spans[0].length()
		t.Spans = t.Spans[1:]
	}
}

// With is the time together with further spans. The receiver stays as it is.
func (t Time) With(further ...Span) Time {
	for _, s := range further {
		t.Add(s)
	}
	return t
}

// Sum is how long it is.
func (t Time) Sum() time.Duration {
	sum := t.Settled
	for _, s := range t.Spans {
		sum += s.length()
	}
	return sum
}

func (s Span) length() time.Duration { return s.To.Sub(s.From) }
