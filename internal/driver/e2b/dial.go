package e2b

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver/e2b/envd"
	"github.com/rolloutd/rolloutd/internal/driver/nested"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/filelock"
	"github.com/rolloutd/rolloutd/internal/sandboxd/attach"
)

// The carrier of a connection ends when its client sends nothing for the time of silence. The client sends
// keep-alive frames three times as often.
const (
	silence  = 90 * time.Second
	lifeSign = silence / 3
)

// notFoundStatus is a shell's exit status for a missing program.
const notFoundStatus = 127

// Dial implements driver.Driver. It ends a machine in which sandboxd does not listen, unless a Create is
// about to start it.
func (d *Driver) Dial(ctx context.Context, id string) (net.Conn, error) {
	m, err := d.find(ctx, id)
	if err != nil {
		return nil, err
	}

	conn, err := d.dial(ctx, m)
	if err == nil {
		return conn, nil
	}

	if !isGone(err) {
		return nil, d.lostError(ctx, id, m, err)
	}

	lock, lockErr := filelock.Acquire(d.lockOf(id))
	if lockErr != nil {
		return nil, fault.Wrap(fault.Unavailable, errors.Join(err, lockErr), "sandbox %q may be in creation", id)
	}
	// closing the file releases it anyway
	defer func() { _ = lock.Release() }()

	return d.dialOrEnd(ctx, id)
}

// dialOrEnd dials, and ends a machine in which sandboxd does not listen. The caller holds the sandbox's lock.
func (d *Driver) dialOrEnd(ctx context.Context, id string) (net.Conn, error) {
	m, err := d.find(ctx, id)
	if err != nil {
		return nil, err
	}

	conn, err := d.dial(ctx, m)
	if err != nil {
		return nil, d.lostError(ctx, id, m, err)
	}

	return conn, nil
}

// goneError reports that nothing listens for control connections in the machine.
type goneError struct{ reply string }

func (e *goneError) Error() string { return "sandboxd does not run: " + e.reply }

func isGone(err error) bool {
	var gone *goneError
	return errors.As(err, &gone)
}

// dial starts the carrier of a connection in the machine, and returns its streams as one connection. ctx
// bounds only the wait for the connection.
func (d *Driver) dial(ctx context.Context, m machine) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// a deadline would end the process
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)

	stream, err := m.envd.Start(running, &envd.StartRequest{
		Process: envd.ProcessConfig{
			Cmd:  d.sandboxd.path,
			Args: []string{attach.Command, attach.Framed, silence.String(), nested.ControlSocket},
			Cwd:  "/",
		},
		Stdin: true,
	})
	if err == nil {
		var (
			pid  int
			rest []byte
		)
		if pid, rest, err = ready(stream); err == nil && stop() {
			return newConn(m.envd, pid, stream, rest, cancel), nil
		}

		err = errors.Join(err, ctx.Err())
		// the process ends when it gets no frames
		if pid != 0 {
			_ = stream.Close()
		}
	}

	cancel()

	return nil, err
}

// eventStream is the events of a process.
type eventStream interface {
	Receive() bool
	Msg() *envd.EventMessage
	Err() error
	Close() error
}

// ready waits until sandboxd has accepted the connection, which the start of the process does not prove. It
// returns the process, and output that came with the first byte.
func ready(stream eventStream) (pid int, rest []byte, err error) {
	output := ""

	for stream.Receive() {
		e := stream.Msg().Event
		switch {
		case e.Start != nil:
			pid = e.Start.PID
		case e.Data != nil && len(e.Data.Stdout) > 0:
			if e.Data.Stdout[0] != attach.Ready {
				return pid, nil, fmt.Errorf("the connection into the sandbox begins with %q", e.Data.Stdout[0])
			}

			return pid, e.Data.Stdout[1:], nil
		case e.Data != nil:
			output += string(e.Data.Stderr[:min(len(e.Data.Stderr), maxSaid-len(output))])
		case e.End != nil && (e.End.ExitCode == attach.GoneStatus || e.End.ExitCode == notFoundStatus):
			return pid, nil, &goneError{output}
		case e.End != nil:
			return pid, nil, fmt.Errorf("the connection into the sandbox ended: %s %q", e.End.Status, output)
		}
	}

	return pid, nil, fmt.Errorf("the connection into the sandbox ended: %w", errors.Join(stream.Err(), errStreamEnded))
}

var errStreamEnded = errors.New("the event stream of the process ended")
