package external

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/text"
)

// Command returns the Source of an MCP server that is a process of this host and uses stdin and stdout.
// argv is its command line, env its whole environment. It is started on first use, restarted after it has
// ended, and stopped by Close.
func Command(o Options, argv, env []string) *Server {
	s := newServer(o, nil)
	s.remote = &mcpServer{connect: func() mcp.Transport {
		return &commandTransport{argv: argv, env: env, writeTime: s.o.Timeout, log: s.log}
	}}

	return s
}

// commandTransport starts the process of a session.
type commandTransport struct {
	argv, env []string

	// for which the process may leave its stdin unread: while it works on another call
	writeTime time.Duration
	log       *slog.Logger
}

// Connect implements mcp.Transport.
func (t *commandTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	cmd := exec.Command(
		t.argv[0],
		t.argv[1:]...) //nolint:noctx // the operator's command line; the process outlives the call that starts it
	cmd.Env = t.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = &logWriter{log: t.log}
	cmd.WaitDelay = stopTime

	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}

	stdin, toProcess, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()

	cmd.Stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, toProcess.Close())
	}

	p := &serverProcess{cmd: cmd, stdin: toProcess, writeTime: t.writeTime}

	return (&mcp.IOTransport{Reader: newLineLimit(stdout), Writer: p, MaxLineLength: maxAnswer}).Connect(ctx)
}

// serverProcess is the stdin of a process; Close ends the process.
type serverProcess struct {
	cmd       *exec.Cmd
	stdin     *os.File
	writeTime time.Duration
	once      sync.Once
}

// Write implements io.Writer. A process that reads nothing would hold this call and all later ones without a bound, so
// it is killed: a message that it has in part spoils those after it.
func (p *serverProcess) Write(b []byte) (int, error) {
	if err := p.stdin.SetWriteDeadline(time.Now().Add(p.writeTime)); err != nil {
		return 0, err
	}

	n, err := p.stdin.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.killGroup()
	}

	return n, err
}

// stopTime is the time for a process to end after its stdin was closed.
const stopTime = 5 * time.Second

// Close ends the process and its process group.
func (p *serverProcess) Close() (err error) {
	p.once.Do(func() {
		err = p.stdin.Close()

		kill := time.AfterFunc(stopTime, p.killGroup)
		defer kill.Stop()

		if wait := p.cmd.Wait(); wait != nil {
			var exit *exec.ExitError
			// its exit status does not matter
			if !errors.As(wait, &exit) {
				err = errors.Join(err, wait)
			}
		}
		// its remaining processes
		p.killGroup()
	})

	return err
}

func (p *serverProcess) killGroup() {
	// it may be gone
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
}

// lineLimit bounds the JSON of each line.
type lineLimit struct {
	io.Closer
	in *bufio.Reader

	// the unread part of the line
	chunk bytes.Reader

	// over chunk; nil: at the start of a line
	line *jsoninput.Reader
}

func newLineLimit(r io.ReadCloser) *lineLimit {
	return &lineLimit{Closer: r, in: bufio.NewReader(r)}
}

// Read implements io.Reader.
func (l *lineLimit) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}

	if l.chunk.Len() == 0 {
		chunk, err := l.in.ReadSlice('\n')
		if len(chunk) == 0 {
			return 0, err
		}

		l.chunk.Reset(chunk)
	}

	if l.line == nil {
		l.line = jsoninput.NewReader(&l.chunk, answerLimits())
	}

	n, err := l.line.Read(p)
	if n > 0 && p[n-1] == '\n' {
		l.line = nil
	}

	return n, err
}

// logWriter logs a process's stderr.
type logWriter struct{ log *slog.Logger }

func (w *logWriter) Write(p []byte) (int, error) {
	w.log.Debug("stderr", "text", text.HeadUTF8(string(p), 1000))
	return len(p), nil
}
