package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
)

const (
	// programs at a time
	maxRunAs = 64

	// bytes
	maxRunAsRequest = 4 << 20
)

// runAs starts programs as the agent's user for processes of the verifier's user; see package runas.
type runAs struct {
	table *Table
	slots chan struct{}

	// programs that have not ended; guarded by table.starting
	running int
}

// ServeRunAs serves run-as-agent on the socket l until ctx ends, and closes l. The programs run in the
// namespaces of this process.
func (t *Table) ServeRunAs(ctx context.Context, l *net.UnixListener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()

	a := &runAs{table: t, slots: make(chan struct{}, maxRunAs)}

	return a.serve(ctx, l)
}

// ListenRunAs creates the socket. Its folder keeps other users out; each connection is checked again.
func ListenRunAs() (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: runas.Socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket of %s: %w", runas.Name, err)
	}
	// another process may serve a copy of it
	l.SetUnlinkOnClose(false)

	if err := os.Chmod(runas.Socket, 0o666); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("socket of %s: %w", runas.Name, err)
	}

	return l, nil
}

// serve accepts requests until l is closed, and returns when every one has been answered.
func (a *runAs) serve(ctx context.Context, l *net.UnixListener) error {
	var calls sync.WaitGroup
	defer calls.Wait()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return err
		}

		select {
		case a.slots <- struct{}{}:
		default:
			answerRunAs(conn, runas.Reply{Error: "too many programs run already"})
			continue
		}

		calls.Go(func() {
			defer func() { <-a.slots }()

			answerRunAs(conn, a.run(ctx, conn))
		})
	}
}

func answerRunAs(conn *net.UnixConn, r runas.Reply) {
	// the helper may be gone
	_ = json.NewEncoder(conn).Encode(r)
	_ = conn.Close()
}

func (a *runAs) run(ctx context.Context, conn *net.UnixConn) runas.Reply {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	files, err := receiveStreams(conn, a.table.Users.agent.VerifierID())
	defer closeAll(files...)

	var req runas.Request
	if err == nil {
		err = json.NewDecoder(io.LimitReader(conn, maxRunAsRequest)).Decode(&req)
	}

	if err != nil {
		return runas.Reply{Error: err.Error()}
	}

	pid, exited, err := a.start(req, files)
	if err != nil {
		return runas.Reply{Error: err.Error()}
	}

	return a.wait(conn, pid, exited)
}

func (a *runAs) start(req runas.Request, files []*os.File) (int, <-chan unix.WaitStatus, error) {
	user, err := a.table.Users.Find("")
	if err != nil {
		return 0, nil, err
	}

	a.table.starting.Lock()
	defer a.table.starting.Unlock()

	env, path := a.table.env.ForAgent(req.Env, req.Path)

	pid, exited, err := a.table.launcher.launch(prestart.Config{
		Argv: req.Argv, Env: env, Path: path, Dir: a.table.startIn.Locate(req.Dir), OrDir: req.Dir, User: user,
	}, [3]uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()})
	if err == nil {
		a.running++
	}

	return pid, exited, err
}

// endProgram kills what a program that has ended left running, so that it cannot trace or stop the next one. In
// namespaces of its own this is every process once no program runs; elsewhere, or beside other programs, it
// is the program's session and its descendants.
func (a *runAs) endProgram(pid int) {
	a.table.starting.Lock()
	defer a.table.starting.Unlock()

	a.running--
	if a.table.ownNamespace && a.running == 0 {
		_ = repeatKill(func(all []procEntry) []int {
			a.table.SignalAll()
			return a.table.others(all)
		})

		return
	}

	_ = killTree(pid, func() bool { return false })
}

// wait returns at the program's end. If the helper ends first, it kills the program's session.
func (a *runAs) wait(conn *net.UnixConn, pid int, exited <-chan unix.WaitStatus) runas.Reply {
	gone := make(chan struct{})
	// ends with the connection, which the caller closes
	go func() {
		defer close(gone)

		_, _ = io.Copy(io.Discard, conn)
	}()

	var status unix.WaitStatus
	select {
	case status = <-exited:
	case <-gone:
		_ = killTree(pid, func() bool { return len(exited) == 0 })
		status = <-exited
	}

	a.endProgram(pid)

	if status.Signaled() {
		return runas.Reply{ExitCode: 128 + int(status.Signal())}
	}

	return runas.Reply{ExitCode: status.ExitStatus()}
}

// receiveStreams checks the user of the connection, and receives the three descriptors that come with the first byte.
func receiveStreams(conn *net.UnixConn, verifier int) ([]*os.File, error) {
	if err := checkPeer(conn, verifier); err != nil {
		return nil, err
	}

	one, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(3*4))

	_, n, flags, _, err := conn.ReadMsgUnix(one, rights)
	if err != nil {
		return nil, err
	}

	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return nil, err
	}

	var files []*os.File

	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}

		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}

	if len(files) != 3 || flags&unix.MSG_CTRUNC != 0 {
		return files, fault.New(fault.Invalid, "a start must have three streams, got %d", len(files))
	}

	return files, nil
}

func checkPeer(conn *net.UnixConn, verifier int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}

	var (
		peer    *unix.Ucred
		credErr error
	)

	if err := raw.Control(func(fd uintptr) {
		peer, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}

	if credErr != nil {
		return credErr
	}

	if int(peer.Uid) != verifier {
		return fault.New(fault.Unauthorized, "user %d may not start programs", peer.Uid)
	}

	return nil
}
