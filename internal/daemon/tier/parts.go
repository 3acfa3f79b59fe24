package tier

import (
	"context"
	"errors"
	"net"
	"slices"
)

// Part is something that runs: a server, a worker, a goroutine, a file that is open.
type Part struct {
	// Stop stops the part within ctx.
	Stop func(ctx context.Context) error
	// Done receives the error of a part whose end ends the process; nil: there is none. It is not read after Stop.
	Done <-chan error
}

// Parts are the parts of a tier, in the order of their start.
type Parts struct{ all []Part }

// Add adds a part.
func (p *Parts) Add(part Part) { p.all = append(p.all, part) }

// OnStop adds a part of which only the stop matters.
func (p *Parts) OnStop(stop func(context.Context) error) { p.Add(Part{Stop: stop}) }

// OnClose adds something that only needs to be closed.
func (p *Parts) OnClose(closeIt func() error) {
	p.OnStop(func(context.Context) error { return closeIt() })
}

// AddListener adds a listener for a server that starts later. It is closed unless its server has closed it.
func (p *Parts) AddListener(l net.Listener) {
	p.OnClose(func() error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}

		return nil
	})
}

// Stop stops all parts in reverse.
func (p *Parts) Stop(ctx context.Context) error {
	var errs []error
	for _, part := range slices.Backward(p.all) {
		errs = append(errs, part.Stop(ctx))
	}

	return errors.Join(errs...)
}
