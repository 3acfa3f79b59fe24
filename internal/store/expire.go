package store

import (
	"context"
	"time"
)

// DeleteEarlier deletes an attempt's blobs from before that time, and the rollout's result and its head if they are older.
func (s *Store) DeleteEarlier(
	ctx context.Context,
	rolloutID string,
	attempt int,
	before time.Time,
) (removed int, err error) {
	for _, prefix := range []string{
		AttemptKey(rolloutID, attempt, "") + "/", ResultKey(rolloutID), HeadKey(rolloutID),
	} {
		n, err := s.expire(ctx, prefix, before)
		if removed += n; err != nil {
			return removed, err
		}
	}

	return removed, nil
}

// expire deletes the blobs below the prefix that were last written before that time.
func (s *Store) expire(ctx context.Context, prefix string, before time.Time) (removed int, err error) {
	for b, err := range s.Blobs(ctx, prefix) {
		if err != nil {
			return removed, err
		}

		if !b.At.Before(before) {
			continue
		}

		if err := s.Delete(ctx, b.Key); err != nil {
			return removed, err
		}

		removed++
	}

	return removed, nil
}
