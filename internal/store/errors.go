package store

import (
	"context"
	"errors"
	"time"

	"github.com/aws/smithy-go"
	"gocloud.dev/gcerrors"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// classify gives a driver's error its kind. What the driver cannot name counts as temporary, as do refused credentials and a missing
// bucket: a problem of a bucket delays a rollout and does not fail it.
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

// codeOf is gcerrors.Code, but for errors of S3. The driver takes each error whose text contains 301 for a missing blob, a refused connection to
// port 13010 included, and a missing bucket too; a caller would then believe that a result does not exist.
func codeOf(err error) gcerrors.ErrorCode {
	var api smithy.APIError
	var operation *smithy.OperationError
	switch {
	case errors.As(err, &api):
		return codeOfS3(api.ErrorCode())
	case errors.As(err, &operation):
		return gcerrors.Unknown
	}
	return gcerrors.Code(err)
}

func codeOfS3(code string) gcerrors.ErrorCode {
	switch code {
	case "NoSuchKey", "NotFound": // the latter answers a HEAD
		return gcerrors.NotFound
	case "AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return gcerrors.PermissionDenied
	default:
		return gcerrors.Unknown
	}
}

// missingBucket says whether S3 has no bucket of the name.
func missingBucket(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && (api.ErrorCode() == "NoSuchBucket" || api.ErrorCode() == "InvalidBucketName")
}

// answerTimeout bounds a call of a bucket that moves little data.
const answerTimeout = time.Minute

// failed is classify for a call under a context of bounded.
func (s *Store) failed(ctx context.Context, err error, doing, key string) error {
	var late *fault.Error
	if err != nil && errors.As(context.Cause(ctx), &late) {
		return fault.Wrap(fault.Unavailable, err, "%s %q: %v", doing, key, late)
	}
	return classify(err, doing, key)
}

// bounded bounds a call of a bucket that moves little data: a bucket that accepts connections and does not answer would hold it for as
// long as ctx allows. The error of a call that reached the bound is temporary.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.folder != "" {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, s.answer, unanswered())
}

// unanswered is the cause of a context that ended at the bound.
func unanswered() error { return fault.New(fault.Unavailable, "the store does not answer") }
