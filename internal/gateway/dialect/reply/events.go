package reply

import (
	"iter"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// SSEEvents iterates over the data of a stream's events. It omits an incomplete event at the end.
func SSEEvents(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := SSESplitter{Raw: raw}
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

// balanced reports whether data is one value with balanced brackets and complete strings.
func balanced(data []byte) bool {
	c := rawjson.Cursor{Src: data}
	c.Skip()

	return c.AtEnd()
}
