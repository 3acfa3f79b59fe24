package agent

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Sandbox has the sandbox operations that agents use; *sandbox.Sandbox documents them.
type Sandbox interface {
	Start(ctx context.Context, name string, p wire.Process) (wire.Status, error)
	Status(ctx context.Context, name string) (wire.Status, error)
	Wait(ctx context.Context, name string, atMost time.Duration) (wire.Status, error)
	WaitLog(
		ctx context.Context,
		name, stream string,
		offset int64,
		limit int,
		atMost time.Duration,
	) (sandbox.Chunk, error)
	Tail(ctx context.Context, st wire.Status, stream string, n int) ([]byte, error)
	Kill(ctx context.Context, name string) error
	WriteFile(ctx context.Context, path string, data io.Reader, mode fs.FileMode) error
	ReadFile(ctx context.Context, path string, limit int64) ([]byte, error)
	PutTar(ctx context.Context, path string, r io.Reader) error
	ClientOf(port int, process string) *http.Client
}

var _ Sandbox = (*sandbox.Sandbox)(nil)
