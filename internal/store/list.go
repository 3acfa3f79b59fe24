package store

import (
	"context"
	"errors"
	"io"
	"iter"

	"gocloud.dev/blob"
)

// Keys iterates over the keys with the prefix, in order. It ends after an error.
func (s *Store) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		all := s.bucket.List(&blob.ListOptions{Prefix: prefix})
		for {
			o, err := all.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}

			if err != nil {
				yield("", s.failed(ctx, err, "list", prefix))
				return
			}

			if !yield(o.Key, nil) {
				return
			}
		}
	}
}
