package sse

import (
	"iter"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Events are those of a stream, each one's data. Half an event, which a cut left at the end, is none.
func Events(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := Splitter{Raw: raw}
		for data, ok := s.Next(); ok; data, ok = s.Next() {
			if !yield(rawjson.Flat(data)) {
				return
			}
		}
		if data, ok := s.Rest(); ok && balanced(data) {
			yield(rawjson.Flat(data))
		}
	}
}

// balanced says whether there is one value, whole by its brackets and strings.
func balanced(data []byte) bool {
	c := rawjson.Cursor{Src: data}
	c.Skip()
	return c.End()
}
