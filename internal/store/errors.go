package store

import (
	"context"
	"errors"
	"time"

	"gocloud.dev/gcerrors"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// classify adds a kind to a driver's error. Unknown errors, refused credentials and a missing bucket count
// as temporary: a problem of a bucket delays a rollout and does not fail it.
func classify(err error, doing, key string) error {
	if err == nil {
		return nil
	}

	kind := fault.Unavailable

	switch codeOf(err) {
	case gcerrors.NotFound:
		kind = fault.NotFound
	case gcerrors.InvalidArgument:
		kind = fault.Invalid
	}

	return fault.Wrap(kind, err, "%s %q", doing, key)
}

// answerTimeout bounds a call of a bucket that transfers little data.
const answerTimeout = time.Minute

// failed is classify for a call under a context of withTimeout. It reports a missing blob only if the bucket exists.
func (s *Store) failed(ctx context.Context, err error, doing, key string) error {
	var late *fault.Error
	if err != nil && errors.As(context.Cause(ctx), &late) {
		return fault.Wrap(fault.Unavailable, err, "%s %q: %v", doing, key, late)
	}

	failure := classify(err, doing, key)
	if fault.Is(failure, fault.NotFound) && s.scheme == schemeGCS && !s.accessible(ctx) {
		return fault.Wrap(fault.Unavailable, err, "%s %q: the bucket is missing or not accessible", doing, key)
	}

	return failure
}

// accessible reports whether the bucket exists. On a read the library for GCS returns the same error for a
// missing blob and a missing bucket.
func (s *Store) accessible(ctx context.Context) bool {
	there, err := s.bucket.IsAccessible(ctx)
	return err == nil && there
}

// withTimeout bounds a call of a bucket that transfers little data: a bucket that accepts connections and does
// not answer would block it for as long as ctx allows. The error of a call that reached the bound is
// temporary.
func (s *Store) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.folder != "" {
		return ctx, func() {}
	}

	return context.WithTimeoutCause(ctx, s.answer, unanswered())
}

// unanswered returns the cause of a context that ended at the bound.
func unanswered() error { return fault.New(fault.Unavailable, "the store does not answer") }
