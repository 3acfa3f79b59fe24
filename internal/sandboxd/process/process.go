package process

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// drainTime is for how long the output of an ended process is still read. Remaining children may hold the
// pipes open without end.
const drainTime = 200 * time.Millisecond

// Process is one named process, running or ended.
type Process struct {
	name    string
	user    string
	pid     int
	started time.Time
	stdout  Output
	stderr  Output

	// closed when the process has exited and its output is final
	done chan struct{}

	// nil: the process is never stopped
	pauser  *pauser
	callers callers

	mu       sync.Mutex
	timedOut bool
	ended    time.Time
	exit     unix.WaitStatus
}

// Stream returns the output "stdout" or "stderr"; nil for any other name.
func (p *Process) Stream(name string) *Output {
	switch name {
	case "stdout":
		return &p.stdout
	case "stderr":
		return &p.stderr
	default:
		return nil
	}
}

// collect reads both pipes (nil for a terminal) until shortly after the process's end, then makes the
// output final. It keeps reading the pipes, so that a remaining child is not killed by SIGPIPE.
func (p *Process) collect(stdout, stderr *os.File, exited <-chan unix.WaitStatus) {
	var copies sync.WaitGroup
	if stdout != nil {
		copies.Go(func() { pump(&p.stdout, stdout) })
		copies.Go(func() { pump(&p.stderr, stderr) })
	}

	drained := make(chan struct{})

	go func() { copies.Wait(); close(drained) }()

	exit := <-exited

	p.mu.Lock()
	p.ended, p.exit = time.Now(), exit
	p.mu.Unlock()

	select {
	case <-drained:
	case <-time.After(drainTime):
	}

	p.stdout.freeze()
	p.stderr.freeze()
	close(p.done)
}

func pump(to *Output, from *os.File) {
	_, _ = io.Copy(onlyWriter{to}, from)
	_ = from.Close()
}

// onlyWriter hides all methods but Write, so that io.Copy uses its small buffer.
type onlyWriter struct{ io.Writer }

// Done is closed when the process has exited and its output is final.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process is running or its output is not final.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// lives reports whether the process is not known to have exited; its output may still be read after that.
func (p *Process) lives() bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.ended.IsZero()
}

// Status returns the status of the process.
func (p *Process) Status() wire.Status {
	s := wire.Status{
		Name: p.name, PID: p.pid, Running: p.Running(), StartedAt: p.started,
		StdoutSize: p.stdout.Length(), StderrSize: p.stderr.Length(), Age: time.Since(p.started),
	}
	s.Paused = s.Running && p.pauser != nil && p.pauser.isStopped()
	p.mu.Lock()
	defer p.mu.Unlock()

	s.TimedOut = p.timedOut
	if s.Running {
		return s
	}

	s.EndedAt, s.Ran = p.ended, p.ended.Sub(p.started)

	s.ExitCode = p.exit.ExitStatus()
	if p.exit.Signaled() {
		s.ExitCode = 128 + int(p.exit.Signal())
		s.Signal = unix.SignalName(p.exit.Signal())
	}

	return s
}

// expire ends a process that exceeded its time.
func (p *Process) expire(kill func(*Process) error) {
	p.mu.Lock()
	p.timedOut = p.ended.IsZero()
	over := !p.timedOut
	p.mu.Unlock()

	if !over {
		// the status shows that it still runs
		_ = kill(p)
	}
}
