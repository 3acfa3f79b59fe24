package devserver

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/temporal"
)

// startTries bounds how often ports are chosen again because another process took one before Temporal listened on it.
const startTries = 5

// start starts a server on the database file, which is locked.
func start(ctx context.Context, file string, o Options) (*Server, error) {
	db := store(file)
	if err := setupSchema(ctx, file); err != nil {
		return nil, err
	}

	if err := createNamespace(db, o); err != nil {
		return nil, fmt.Errorf("make namespace %q: %w", o.Namespace, err)
	}

	choose := o.choose
	if choose == nil {
		choose = freePorts
	}

	for try := 1; ; try++ {
		ports, block, err := choose(o.Port)
		if err != nil {
			return nil, err
		}

		s := &Server{address: address(ports[0]), block: block, failed: make(chan error, 1)}
		if err = s.run(db, ports, o); err == nil {
			return s, nil
		}

		err = errors.Join(err, block.Close())
		if try == startTries || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}

		o.Log.WarnContext(ctx, "another process took a port of the Temporal server; it starts on others", "error", err)
	}
}

// run creates and starts the server in a goroutine of its own, which a fatal line of the server ends. The
// parts that exist by then keep running, since they cannot be stopped.
func (s *Server) run(db *config.SQL, ports [len(services)]int, o Options) error {
	done := make(chan error, 1)
	// ends with the start
	go func() {
		defer close(done)
		defer func() {
			// The library turns the end of a goroutine that makes a part of it into a panic.
			if p := recover(); p != nil && len(s.failed) == 0 {
				panic(p)
			}
		}()

		done <- s.begin(db, ports, logger{slog: o.Log, fatal: s.fail, stopping: &s.stopping})
	}()

	if err, returned := <-done; returned {
		return err
	}

	return fmt.Errorf("start temporal server: %w", <-s.failed)
}

func (s *Server) begin(db *config.SQL, ports [len(services)]int, log logger) error {
	var err error
	if s.inner, err = newServer(serverConfig(db, ports), ports, log); err != nil {
		return fmt.Errorf("temporal server: %w", err)
	}

	if err := s.inner.Start(); err != nil {
		return errors.Join(fmt.Errorf("start temporal server: %w", err), s.inner.Stop())
	}

	return nil
}

func newServer(cfg *config.Config, ports [len(services)]int, log logger) (temporal.Server, error) {
	return temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(staticHosts(ports)),
		temporal.WithLogger(log),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(
			func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() },
		),
		temporal.WithDynamicConfigClient(settings()),
		temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler),
	)
}
