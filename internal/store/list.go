package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"path"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Blob is an entry of a list.
type Blob struct {
	Key  string
	Size int64

	// of the last write
	At time.Time
}

// maxListAgain bounds how often a list of a folder begins again because of its writers.
const maxListAgain = 100

// Blobs iterates over the blobs whose keys have the prefix, in the order of their keys. It ends after an error.
func (s *Store) Blobs(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		all, last, again := s.bucket.List(&blob.ListOptions{Prefix: prefix}), "", maxListAgain
		for {
			o, err := all.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}

			// in a folder a writer has renamed its unfinished file during the look
			if again > 0 && err != nil && s.folder != "" && codeOf(err) == gcerrors.NotFound {
				again--

				all = s.bucket.List(&blob.ListOptions{Prefix: prefix})

				continue
			}

			if err != nil {
				yield(Blob{}, s.failed(ctx, err, "list", prefix))
				return
			}

			// a writer is at work, or the list began again
			if unfinished.MatchString(o.Key) || o.Key <= last {
				continue
			}

			last = o.Key

			if !yield(Blob{Key: o.Key, Size: o.Size, At: o.ModTime}, nil) {
				return
			}
		}
	}
}

// Keys iterates over the keys with the prefix, in order. It ends after an error.
func (s *Store) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for b, err := range s.Blobs(ctx, prefix) {
			if !yield(b.Key, err) {
				return
			}
		}
	}
}

// Folders iterates over the names of the folders below a prefix that ends in "/". It ends after an error.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		all := s.bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"})
		for {
			o, err := all.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}

			if err != nil {
				yield("", s.failed(ctx, err, "list", prefix))
				return
			}

			if o.IsDir && !yield(path.Base(o.Key), nil) {
				return
			}
		}
	}
}
