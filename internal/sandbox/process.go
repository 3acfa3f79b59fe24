package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// DefaultPath is the PATH of a process whose caller sets none.
const DefaultPath = "/usr/local/bin:/usr/bin:/bin:/opt/rolloutd/bin"

// longPoll bounds one waiting request, so that a provider's idle timeout does not look like a lost sandbox.
const longPoll = 50 * time.Second

// Start starts the process, or returns the process that was started under that name before, running or
// ended. It runs as p.User, or if that is empty as the user of s. Its environment is p.Env, plus PATH and
// HOME where missing; its directory defaults to the user's home. A missing program is a fault.Invalid.
func (s *Sandbox) Start(ctx context.Context, name string, p wire.Process) (st wire.Status, err error) {
	ctx, span := s.backend.span(ctx, "sandbox.start "+name, s.id)
	defer func() { endSpan(span, err) }()

	return st, s.json(ctx, call{method: http.MethodPut, path: processPath(name), in: s.withDefaults(p)}, &st)
}

func (s *Sandbox) withDefaults(p wire.Process) wire.Process {
	p.User = cmp.Or(p.User, s.user)
	p.Env = withBasics(s.env, p.Env, homeOf(p.User))
	p.Dir = cmp.Or(p.Dir, homeOf(p.User))

	return p
}

// Status returns the state of the process; fault.NotFound: it was never started.
func (s *Sandbox) Status(ctx context.Context, name string) (wire.Status, error) {
	return s.status(ctx, name, 0)
}

// Wait returns the status when the process has exited, or after atMost.
func (s *Sandbox) Wait(ctx context.Context, name string, atMost time.Duration) (wire.Status, error) {
	deadline := time.Now().Add(atMost)
	for {
		left := time.Until(deadline)

		st, err := s.status(ctx, name, min(max(left, 0), longPoll))
		if err != nil || !st.Running || left <= longPoll {
			return st, err
		}
	}
}

func (s *Sandbox) status(ctx context.Context, name string, wait time.Duration) (wire.Status, error) {
	c := call{method: http.MethodGet, path: processPath(name)}
	if wait > 0 {
		c.query, c.wait = url.Values{"wait": {wait.String()}}, wait
	}

	var st wire.Status

	return st, s.json(ctx, c, &st)
}

// Kill ends the process with its session and descendants, and returns when it has ended; fault.NotFound: it
// was never started.
func (s *Sandbox) Kill(ctx context.Context, name string) error {
	return s.json(ctx, call{method: http.MethodPost, path: processPath(name) + "/kill"}, nil)
}

// KillAll ends every process of the sandbox except sandboxd, of all callers, and returns when they are
// gone. After it Exec and PTY start nothing and return a fault.Aborted; an earlier call still returns its
// result.
func (s *Sandbox) KillAll(ctx context.Context) error {
	return s.json(ctx, call{method: http.MethodPost, path: "/v1/kill-all"}, nil)
}

// Chunk is a piece of a process's output.
type Chunk struct {
	// Data ends at offset Next. If Next-len(Data) is beyond the requested offset, the bytes between are
	// lost: only the first and the last MiB of a stream are kept.
	Data []byte

	// offset of the next request
	Next int64

	// the process has ended and Data is the end of its output
	EOF bool
}

// Log reads a stream ("stdout" or "stderr") from offset, at most limit bytes. An empty Chunk without EOF
// means that there is no new output.
func (s *Sandbox) Log(ctx context.Context, name, stream string, offset int64, limit int) (Chunk, error) {
	return s.log(ctx, name, stream, offset, limit, 0)
}

// WaitLog is Log that waits for new output or the end of the process, at most atMost. It may return earlier
// without new output.
func (s *Sandbox) WaitLog(
	ctx context.Context,
	name, stream string,
	offset int64,
	limit int,
	atMost time.Duration,
) (Chunk, error) {
	return s.log(ctx, name, stream, offset, limit, min(atMost, longPoll))
}

func (s *Sandbox) log(
	ctx context.Context,
	name, stream string,
	offset int64,
	limit int,
	wait time.Duration,
) (Chunk, error) {
	c := call{method: http.MethodGet, path: processPath(name) + "/log", query: url.Values{
		"stream": {stream},
		"offset": {strconv.FormatInt(offset, 10)},
		"limit":  {strconv.Itoa(limit)},
	}}
	if wait > 0 {
		c.query.Set("wait", wait.String())
		c.wait = wait
	}

	res, err := s.do(ctx, c)
	if err != nil {
		return Chunk{}, err
	}
	defer freeConnection(res)

	data, err := io.ReadAll(io.LimitReader(res.Body, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("more than the %d bytes that were asked for", limit)
	}

	if err != nil {
		return Chunk{}, s.broken(ctx, c, err)
	}

	next, err := strconv.ParseInt(res.Header.Get(wire.LogNextHeader), 10, 64)
	if err != nil {
		return Chunk{}, fault.Wrap(fault.Internal, err, "sandbox %q: %s", s.id, wire.LogNextHeader)
	}

	return Chunk{Data: data, Next: next, EOF: res.Header.Get(wire.LogEOFHeader) == "true"}, nil
}

// Tail reads the last n bytes that a process had written to a stream at the time of this status, or all of them.
func (s *Sandbox) Tail(ctx context.Context, st wire.Status, stream string, n int) ([]byte, error) {
	size := st.StdoutSize
	if stream == "stderr" {
		size = st.StderrSize
	}

	if size == 0 {
		return nil, nil
	}

	chunk, err := s.Log(ctx, st.Name, stream, max(size-int64(n), 0), n)

	return chunk.Data, err
}

func homeOf(user string) string {
	if user == wire.VerifierUser {
		return wire.VerifierHome
	}

	return wire.AgentHome
}

func withBasics(more, env map[string]string, home string) map[string]string {
	full := map[string]string{"PATH": DefaultPath, "HOME": home}
	maps.Copy(full, more)
	maps.Copy(full, env)

	return full
}

func processPath(name string) string { return "/v1/processes/" + url.PathEscape(name) }
