package opencode_test

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// fakeSandbox is a sandbox in memory: files, one process at a time, and one port that leads to a server of the test.
type fakeSandbox struct {
	// the test's fake OpenCode server
	server *url.URL

	// answers in place of the server, without a connection
	answers http.Handler

	mu       sync.Mutex
	files    map[string][]byte
	started  []wire.Process
	process  wire.Status
	out, err []byte

	// calls of WaitLog that wait
	logs int
	lost bool
	// keepListening makes the test's server answer although the process is dead.
	keepListening bool
	// dying makes the process count as running although it answers nothing.
	dying bool
}

func (b *fakeSandbox) Start(_ context.Context, name string, p wire.Process) (wire.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.started = append(b.started, p)
	b.process = wire.Status{Name: name, Running: true, PID: 2, StartedAt: time.Now()}

	return b.process, nil
}

func (b *fakeSandbox) Status(_ context.Context, name string) (wire.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	switch {
	case b.lost:
		return wire.Status{}, fault.New(fault.SandboxLost, "gone")
	case b.process.Name != name:
		return wire.Status{}, fault.New(fault.NotFound, "no process %s", name)
	}

	st := b.process
	st.StdoutSize, st.StderrSize = int64(len(b.out)), int64(len(b.err))

	return st, nil
}

func (b *fakeSandbox) Wait(ctx context.Context, name string, _ time.Duration) (wire.Status, error) {
	return b.Status(ctx, name)
}

func (b *fakeSandbox) WaitLog(
	_ context.Context,
	_, stream string,
	offset int64,
	limit int,
	wait time.Duration,
) (sandbox.Chunk, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if wait > 0 {
		b.logs++
	}

	data := b.out
	if stream == "stderr" {
		data = b.err
	}

	data = data[min(int(offset), len(data)):]
	data = data[:min(limit, len(data))]

	return sandbox.Chunk{Data: data, Next: offset + int64(len(data)), EOF: !b.process.Running}, nil
}

func (b *fakeSandbox) Tail(ctx context.Context, st wire.Status, stream string, n int) ([]byte, error) {
	all, err := b.WaitLog(ctx, st.Name, stream, 0, 1<<30, 0)
	return all.Data[max(0, len(all.Data)-n):], err
}

func (b *fakeSandbox) Kill(_ context.Context, _ string) error {
	b.end(wire.Status{ExitCode: 137, Signal: "killed"})
	return nil
}

func (b *fakeSandbox) end(how wire.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()

	how.Name = b.process.Name
	b.process = how
}

// beginToDie makes a dead process count as running, as a process that is being killed does.
func (b *fakeSandbox) beginToDie() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.process.Running, b.dying = true, true
}

func (b *fakeSandbox) lose() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.lost = true
}

// write appends to the process's output.
func (b *fakeSandbox) write(stdout, stderr string) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.out, b.err = append(b.out, stdout...), append(b.err, stderr...)
}

func (b *fakeSandbox) WriteFile(_ context.Context, path string, data io.Reader, _ fs.FileMode) error {
	content, err := io.ReadAll(data)

	b.mu.Lock()
	defer b.mu.Unlock()

	if b.files == nil {
		b.files = map[string][]byte{}
	}

	b.files[path] = content

	return err
}

func (b *fakeSandbox) ReadFile(_ context.Context, path string, _ int64) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if content, ok := b.files[path]; ok {
		return content, nil
	}

	return nil, fault.New(fault.NotFound, "no file %s", path)
}

func (b *fakeSandbox) PutTar(ctx context.Context, path string, r io.Reader) error {
	return b.WriteFile(ctx, path+".tar", r, 0)
}

func (b *fakeSandbox) ClientOf(int, string) *http.Client { return &http.Client{Transport: b} }

// RoundTrip sends requests to the test's server while the process runs.
func (b *fakeSandbox) RoundTrip(req *http.Request) (*http.Response, error) {
	b.mu.Lock()
	running := b.process.Running && !b.dying || b.keepListening
	b.mu.Unlock()

	if !running {
		return nil, fault.New(fault.Unavailable, "nothing listens")
	}

	if b.answers != nil {
		w := httptest.NewRecorder()
		b.answers.ServeHTTP(w, req)

		return w.Result(), nil
	}

	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = b.server.Scheme, b.server.Host

	return http.DefaultTransport.RoundTrip(req)
}
