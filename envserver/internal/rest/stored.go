package rest

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// blobs reads blobs of the finished rollout that a request names, one after another. It skips names without
// a blob; without any blob the error is a fault.NotFound.
func (a *API) blobs(r *http.Request, what string, names ...string) (io.ReadCloser, error) {
	state, err := a.finishedState(r)
	if err != nil {
		return nil, err
	}

	found, err := a.artifacts(r.Context(), state.ID, names...)
	if err == nil && len(found) == 0 {
		err = noBlob(state.ID, what)
	}

	return found.joined(), err
}

func noBlob(id, what string) error {
	return fault.New(fault.NotFound, "rollout %s left no %s", id, what)
}

// artifacts opens blobs of the rollout by name. It skips names without a blob.
func (a *API) artifacts(ctx context.Context, id string, names ...string) (found parts, err error) {
	for _, name := range names {
		part, err := a.Rollouts.Open(ctx, id, name)
		switch {
		case err == nil:
			found = append(found, part)
		case !fault.Is(err, fault.NotFound):
			return nil, errors.Join(err, found.Close())
		}
	}

	return found, nil
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
