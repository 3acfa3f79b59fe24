package devserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/config"
	schema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rolloutd/rolloutd/internal/filelock"
)

// DefaultRetention is how long closed workflows are kept and listed. The results of rollouts stay in the store.
const DefaultRetention = 30 * 24 * time.Hour

// Options of an embedded server.
type Options struct {
	// folder of the database; created if missing
	Dir string

	// port of the gRPC front end on loopback; 0: any
	Port int

	// created at first start
	Namespace string

	// how long closed workflows are kept and listed; 0: as it is, which is DefaultRetention at the first start
	Retention time.Duration
	// SearchAttributes are registered when the namespace is created; package temporalx registers them in
	// one that exists.
	SearchAttributes map[string]enumspb.IndexedValueType
	Log              *slog.Logger

	// nil: freePorts
	choose choosePorts
}

// Server is a running Temporal server.
type Server struct {
	address  string
	inner    temporal.Server
	block    io.Closer
	lock     *filelock.Lock
	failed   chan error
	stopping atomic.Bool
	stop     sync.Once
}

// Start starts a server. Its errors include InUseError, SchemaError and listen.Error.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}

	if err := checkSchema(o.Dir); err != nil {
		return nil, err
	}

	file := DatabaseFile(o.Dir)

	lock, err := lockDatabase(file)
	if err != nil {
		return nil, err
	}

	s, err := start(ctx, file, o)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}

	s.lock = lock

	if err := s.retain(ctx, o); err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}

	return s, nil
}

// retain gives a namespace that exists the retention of the options.
func (s *Server) retain(ctx context.Context, o Options) error {
	if o.Retention == 0 {
		return nil
	}

	c, err := client.NewNamespaceClient(client.Options{HostPort: s.address, Logger: o.Log})
	if err != nil {
		return fmt.Errorf("set the retention: %w", err)
	}
	defer c.Close()

	err = c.Update(ctx, &workflowservice.UpdateNamespaceRequest{
		Namespace: o.Namespace,
		Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(o.Retention)},
	})
	if err != nil {
		return fmt.Errorf("set the retention to %s: %w", o.Retention, err)
	}

	return nil
}

// createNamespace creates the namespace in the database before the server runs, unless it exists.
func createNamespace(db *config.SQL, o Options) error {
	ns, err := schema.NewNamespaceConfig(clusterName, o.Namespace, false, o.SearchAttributes)
	if err != nil {
		return err
	}

	ns.Detail.Config.Retention = durationpb.New(cmp.Or(o.Retention, DefaultRetention))

	return schema.CreateNamespaces(db, ns)
}

// Address is where clients reach the server.
func (s *Server) Address() string { return s.address }

// Failed receives the error of a server that fails by itself.
func (s *Server) Failed() <-chan error { return s.failed }

func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default: // the first cause is reported
	}
}

// Stop stops the server and unlocks the database. If ctx ends first, the server runs until the process ends.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)

	done := make(chan error, 1)
	// ends with the server, or with the process
	go func() {
		var err error

		s.stop.Do(func() { err = errors.Join(s.inner.Stop(), s.block.Close(), s.lock.Release()) })

		done <- err
	}()

	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("temporal server has not stopped: %w", ctx.Err())
	}
}
