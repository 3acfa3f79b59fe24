package store

import (
	"context"
	"errors"
	"io"
	"time"

	"gocloud.dev/blob"
)

// DeleteEarlier deletes an attempt's blobs from before that time, and the rollout's result if it is older.
func (s *Store) DeleteEarlier(
	ctx context.Context,
	rolloutID string,
	attempt int,
	before time.Time,
) (removed int, err error) {
	for _, prefix := range []string{AttemptKey(rolloutID, attempt, "") + "/", ResultKey(rolloutID)} {
		n, err := s.expire(ctx, prefix, before)
		if removed += n; err != nil {
			return removed, err
		}
	}

	return removed, nil
}

// expire deletes the blobs below the prefix that were last written before that time.
func (s *Store) expire(ctx context.Context, prefix string, before time.Time) (removed int, err error) {
	all := s.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return removed, nil
		}

		if err != nil {
			return removed, classify(err, "list", prefix)
		}

		if o.IsDir || !o.ModTime.Before(before) {
			continue
		}

		if err := s.Delete(ctx, o.Key); err != nil {
			return removed, err
		}

		removed++
	}
}
