package rest

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// leftBy reads the blobs of the finished rollout that a request names, one after another. It skips names without a blob, unless there is
// none at all.
func (a *API) leftBy(r *http.Request, what string, names ...string) (io.ReadCloser, error) {
	state, err := a.done(r)
	if err != nil {
		return nil, err
	}
	left, err := a.artifacts(r.Context(), state.ID, names...)
	if err == nil && len(left) == 0 {
		err = leftNothing(state.ID, what)
	}
	return left.joined(), err
}

func leftNothing(id, what string) error {
	return fault.New(fault.NotFound, "rollout %s left no %s", id, what)
}

// artifacts opens the rollout's blobs of the names. It skips names without a blob.
func (a *API) artifacts(ctx context.Context, id string, names ...string) (left parts, err error) {
	for _, name := range names {
		part, err := a.Rollouts.Open(ctx, id, name)
		switch {
		case err == nil:
			left = append(left, part)
		case !fault.Is(err, fault.NotFound):
			return nil, errors.Join(err, left.Close())
		}
	}
	return left, nil
}

// parts are read one after another and closed together.
type parts []io.ReadCloser

func (p parts) joined() io.ReadCloser {
	var all []io.Reader
	for _, part := range p {
		all = append(all, part)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(all...), p}
}

// Close closes all parts.
func (p parts) Close() error {
	var errs []error
	for _, part := range p {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}
