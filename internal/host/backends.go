package host

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// Backends are the sandbox backends of a host, by the name that a task uses. Its methods look at all of
// them, for callers that know a sandbox by its id alone: the gateway, Takeover and Janitor.
type Backends map[string]*sandbox.Backend

// Names are the backends' names in order.
func (b Backends) Names() []string { return slices.Sorted(maps.Keys(b)) }

// List lists the living sandboxes of all backends. With an error, the list holds those of the backends that answered.
func (b Backends) List(ctx context.Context) ([]driver.Info, error) {
	var (
		all  []driver.Info
		errs []error
	)

	for _, name := range b.Names() {
		infos, err := b[name].List(ctx)
		all, errs = append(all, infos...), append(errs, err)
	}

	return all, errors.Join(errs...)
}

// Destroy destroys the sandbox on its backend. A missing sandbox is no error.
func (b Backends) Destroy(ctx context.Context, id string) error {
	var errs []error
	for _, name := range b.Names() {
		errs = append(errs, b[name].Destroy(ctx, id))
	}

	return errors.Join(errs...)
}

// ServeModel serves the model calls of the sandbox on its backend; see sandbox.Backend. A sandbox that no
// backend has is a fault.SandboxLost. While a backend does not answer, the others are asked all the same.
func (b Backends) ServeModel(ctx context.Context, id string, h http.Handler, served func()) error {
	lost := error(fault.New(fault.SandboxLost, "no backend has sandbox %q", id))

	var unknown error

	for _, name := range b.Names() {
		found := false
		err := b[name].ServeModel(ctx, id, h, func() {
			found = true

			if served != nil {
				served()
			}
		})

		switch {
		case err == nil || found:
			return err
		case fault.Is(err, fault.SandboxLost):
			lost = err
		default:
			unknown = errors.Join(unknown, err)
		}
	}

	return cmp.Or(unknown, lost)
}
