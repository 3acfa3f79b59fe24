package grading

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
)

// In live grading the services that the agent has left go on in its sandbox. The verifier runs in another one with
// the saved work, as always, and finds their TCP ports on its own loopback: this process carries each connection
// from there to the agent's sandbox. So whatever is left running reaches the verifier by these bytes only.

const (
	// maxServices bounds the ports that are carried; further ones are not.
	maxServices = 64

	// maxNamed bounds the ports in a note.
	maxNamed = 8

	// lookAgain is the time between two looks for ports: a service may begin to listen, or be started by another one,
	// at any time.
	lookAgain = 200 * time.Millisecond

	// firstService is how long processes that were left may take until one listens, before the verifier starts.
	firstService = 3 * time.Second

	// openTime bounds the wait for the verifier's side of the first ports.
	openTime = 10 * time.Second
)

// still ends all processes of the agent's sandbox, so that a tar shows one moment, and notes the ports with which they
// listened. If they are to live, it ends the agent alone and stops the others, until runLive.
func (g *Grader) still(ctx context.Context, sb *sandbox.Sandbox, t rollout.Target, live bool) error {
	if live {
		if err := g.EndAgent(ctx, sb); err != nil {
			return err
		}

		return sb.Freeze(ctx)
	}

	if err := g.noteListeners(ctx, sb, t); err != nil {
		return err
	}

	return sb.KillAll(ctx)
}

// noteListeners stores the ports of the agent's processes, if there are any. If they cannot be listed, it
// stores nothing: the note is optional.
func (g *Grader) noteListeners(ctx context.Context, sb *sandbox.Sandbox, t rollout.Target) error {
	left, err := sb.Listeners(ctx)
	if err != nil || len(left.Ports) == 0 {
		return nil //nolint:nilerr // see above
	}

	return g.Store.PutJSON(ctx, listenersKey(t), left)
}

func listenersKey(t rollout.Target) string {
	return store.AttemptKey(t.RolloutID, t.Attempt, store.Listeners)
}

// notes are Grading.Notes.
func (g *Grader) notes(ctx context.Context, job Job) ([]string, error) {
	if job.Verifier.Image != "" {
		return g.artifactNotes(ctx, job)
	}

	var left wire.Listeners

	err := g.Store.JSON(ctx, listenersKey(job.Target), &left)
	// the ports of services cannot be told from those of the agent's processes
	if err != nil || job.Verifier.Live() || job.Services != "" {
		return nil, fault.Ignore(err, fault.NotFound)
	}

	ports := make([]string, 0, len(left.Ports))
	for _, p := range left.Ports {
		ports = append(ports, strconv.Itoa(p))
	}

	named := strings.Join(ports[:min(len(ports), maxNamed)], ", ")
	if more := len(ports) - maxNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}

	return []string{
		fmt.Sprintf(
			"the agent left processes that listen on ports (%s), which grading ended: tests that need them pass only with verifier.grade: live",
			named,
		),
	}, nil
}

// forgetLive destroys the verifier's sandbox of an earlier, interrupted live grading: meanwhile nobody carried its
// connections, so what its tests saw says nothing about the work.
func (g *Grader) forgetLive(ctx context.Context, job Job) error {
	if !job.Verifier.Live() {
		return nil
	}

	return g.Sandboxes.Destroy(ctx, job.VerifierID())
}

// runLive runs the verifier while the agent's services go on. What the verifier found counts only if the agent's
// sandbox lived to its end.
func (g *Grader) runLive(ctx context.Context, sb *sandbox.Sandbox, job Job, record *Record) error {
	from, release, err := g.Sandboxes.Attach(ctx, job.SandboxID())
	if err != nil {
		return blameBounds(err, "reach the agent's services")
	}
	defer release()

	s := &services{from: from, to: sb, log: g.Logger, open: map[int]chan struct{}{}}

	carrying, stop := context.WithCancel(ctx)
	if err = s.start(carrying); err == nil {
		err = g.handleLostSandbox(ctx, sb, record, g.run(ctx, sb, job, record))
	}

	stop()
	s.running.Wait()

	if _, gone := from.Listeners(ctx); gone != nil {
		return blameBounds(from.OfMemory(ctx, gone), "reach the agent's services")
	}

	return err
}

// services carries connections from the ports of one sandbox to those of another.
type services struct {
	from, to *sandbox.Sandbox
	log      *slog.Logger
	running  sync.WaitGroup

	// by port; closed when the port is open on the verifier's side
	open map[int]chan struct{}
}

// start lets the agent's processes go on, opens the ports with which they listen, and those of later ones until ctx
// ends.
func (s *services) start(ctx context.Context) error {
	if err := s.from.Thaw(ctx); err != nil {
		return err
	}

	for deadline := time.Now().Add(firstService); ; {
		left, err := s.openNewPorts(ctx)
		if err != nil {
			return err
		}

		if len(s.open) > 0 || left.Processes == 0 || time.Now().After(deadline) {
			break
		}

		if err := clock.Sleep(ctx, lookAgain); err != nil {
			return err
		}
	}

	s.await(ctx)
	s.running.Go(func() { s.lookOn(ctx) })

	return nil
}

// await waits until the ports that were found are open. One that cannot be opened is tried again meanwhile.
func (s *services) await(ctx context.Context) {
	ctx, enough := context.WithTimeout(ctx, openTime)
	defer enough()

	for _, opened := range s.open {
		select {
		case <-opened:
		case <-ctx.Done():
		}
	}
}

func (s *services) lookOn(ctx context.Context) {
	for clock.Sleep(ctx, lookAgain) == nil {
		// runLive finds out whether the sandbox is gone
		_, _ = s.openNewPorts(ctx)
	}
}

// openNewPorts opens the ports that are new.
func (s *services) openNewPorts(ctx context.Context) (wire.Listeners, error) {
	left, err := s.from.Listeners(ctx)

	for _, port := range left.Ports {
		if s.open[port] == nil && len(s.open) < maxServices {
			opened := make(chan struct{})
			s.open[port] = opened
			s.running.Go(func() { s.carry(ctx, port, sync.OnceFunc(func() { close(opened) })) })
		}
	}

	return left, err
}

// carry carries the connections to a port until ctx ends.
func (s *services) carry(ctx context.Context, port int, opened func()) {
	for ctx.Err() == nil {
		err := s.to.ServePort(ctx, port, opened, func(ctx context.Context, conn io.ReadWriteCloser) {
			s.connect(ctx, port, conn)
		})
		if err != nil {
			s.log.DebugContext(ctx, "service not carried", "sandbox", s.from.ID(), "port", port, "error", err)
		}

		_ = clock.Sleep(ctx, lookAgain)
	}
}

// connect carries one connection. It ends when the service has closed it, or ctx ends.
func (s *services) connect(ctx context.Context, port int, conn io.ReadWriteCloser) {
	service, err := s.from.Connect(ctx, port)
	if err != nil {
		return
	}

	stop := context.AfterFunc(ctx, func() { _ = service.Close() })
	defer stop()

	var sending sync.WaitGroup

	sending.Go(func() {
		_, err := io.Copy(service, conn)
		if err != nil || closeWrite(service) != nil {
			_ = service.Close()
		}
	})

	_, _ = io.Copy(conn, service)
	_ = conn.Close()
	_ = service.Close()

	sending.Wait()
}

// closeWrite tells the service that the stream has ended. Not every driver's connections can say so.
func closeWrite(conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}

	return half.CloseWrite()
}
