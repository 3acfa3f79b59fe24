package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/driver/launcher"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Step is one command of the build of an image. It runs in a sandbox without sandboxd, which shows the command the
// image as a container engine does: only /proc, /dev and /etc/hosts are the sandbox's own.
type Step struct {
	// folders of the image's layers, the lowest first
	Layers []string

	Argv, Env []string
	// Path is the search path of Argv[0], in the form of $PATH. Dir is a folder of the image.
	Path, Dir string
	// User of the image. User 0 has the capabilities that an agent has as root of an image, and SYS_CHROOT.
	User wire.Account
	// Tmpfs are folders that are empty and are forgotten.
	Tmpfs []string

	// cores
	CPU float64

	// memory of the command, with all that it writes
	MemoryMiB int

	// processes and threads
	PIDs int

	// size of what it writes
	DiskMiB int

	Output io.Writer

	// Network serves the connections to wire.NetworkAddr in the sandbox, until the listener is closed; nil: the
	// sandbox has no network.
	Network func(net.Listener)
}

// Changes are the files that a step has changed, in the form that overlayfs writes. The ids of their owners begin
// with Base. Close forgets them.
type Changes struct {
	Root *os.Root
	Base int
	fs   *os.File
}

// Close forgets the files.
func (c *Changes) Close() error { return errors.Join(c.Root.Close(), c.fs.Close()) }

// RunStep runs a step and returns its exit status and what it changed. It ends every process of the step before it
// returns, also when ctx ends.
func (d *Driver) RunStep(ctx context.Context, s Step) (int, *Changes, error) {
	if d.uids == nil {
		return 0, nil, fault.New(fault.Unavailable,
			"a RUN needs root: an ordinary user cannot map the users of an image")
	}

	if err := d.Probe(ctx); err != nil {
		return 0, nil, err
	}

	dir, err := os.MkdirTemp("", "rolloutd-step-")
	if err != nil {
		return 0, nil, fault.Wrap(fault.Exhausted, err, "folder of a build")
	}
	defer os.RemoveAll(dir)

	memory, err := launcher.Memory(s.DiskMiB)
	if err != nil {
		return 0, nil, fault.Wrap(fault.Unavailable, err, "memory of a build")
	}

	r := &stepRun{d: d, s: s, dir: dir, memory: memory, l: d.newLaunch()}

	status, err := r.run(ctx)
	if err != nil {
		return 0, nil, errors.Join(err, memory.Close())
	}

	upper, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d/upper", memory.Fd()))
	if err != nil {
		return 0, nil, errors.Join(fault.Wrap(fault.Unavailable, err, "changes of a build"), memory.Close())
	}

	return status, &Changes{Root: upper, Base: r.l.base, fs: memory}, nil
}

// stepRun is one run of a step.
type stepRun struct {
	d      *Driver
	s      Step
	dir    string
	memory *os.File
	l      *launch
}

func (r *stepRun) spec() driver.Spec {
	return driver.Spec{
		CPU: r.s.CPU, MemoryMiB: r.s.MemoryMiB, PIDs: r.s.PIDs, HomeMiB: r.s.DiskMiB, TmpMiB: r.s.DiskMiB,
	}
}

func (r *stepRun) run(ctx context.Context) (status int, err error) {
	cgroup := r.d.cgroupName("build-" + rand.Text())

	defer func() {
		r.l.close()
		err = errors.Join(err, r.endProcesses(context.WithoutCancel(ctx), cgroup))
	}()

	// parts of it are created by now, so it is ended
	out, err := r.prepare(cgroup)
	if err != nil {
		return 0, err
	}
	defer out.Close()

	// bwrap ends with the thread that started it: a build ends with its command
	runtime.LockOSThread()

	defer runtime.UnlockOSThread()

	child, err := r.l.start()
	if err != nil {
		return 0, fault.Wrap(fault.Unavailable, err, "start stage")
	}

	r.l.closeFiles()

	copied := make(chan error, 1)

	go func() { _, err := io.Copy(r.s.Output, out); copied <- err }()

	stop := context.AfterFunc(ctx, func() { _ = unix.Kill(child.pid, unix.SIGKILL) })
	defer stop()

	stopNetwork, err := r.admit(ctx)
	if err != nil {
		// it does not start by itself
		_ = unix.Kill(child.pid, unix.SIGKILL)
	}

	status = child.wait()

	stopNetwork()

	// a process that left the command has the output too
	err = errors.Join(err, r.endProcesses(context.WithoutCancel(ctx), cgroup), <-copied)

	if ctx.Err() != nil {
		return 0, fault.Wrap(fault.Timeout, errors.Join(context.Cause(ctx), err), "the command was ended")
	}

	return status, err
}

// prepare opens all that the sandbox gets, and returns the output of its command.
func (r *stepRun) prepare(cgroup string) (out *os.File, err error) {
	out, r.l.log, err = os.Pipe()
	if err != nil {
		return nil, err
	}

	if err = r.compose(cgroup); err == nil {
		err = r.l.passStage()
	}

	if err != nil {
		return nil, errors.Join(err, out.Close())
	}

	return out, nil
}

// compose writes what the stage enters and mounts, and bwrap's command line.
func (r *stepRun) compose(cgroup string) (err error) {
	l := r.l
	if err := r.enter(cgroup); err != nil {
		return err
	}

	if l.stage.Overlay, err = r.overlay(); err != nil {
		return err
	}

	c := &composer{launch: l}
	c.isolate()
	c.opt("--die-with-parent")

	if err := c.stepUsers(); err != nil {
		return err
	}

	r.mounts(c)
	c.data("--seccomp", "filter", r.d.filter)

	argsFD, err := l.addData("args", nulSeparated(c.args))
	if err != nil || c.err != nil {
		return errorsFirst(err, c.err)
	}

	l.stage.Argv, err = r.argv(argsFD)

	return err
}

// overlay returns the stage's configuration for the image, which writes into the memory of the step.
func (r *stepRun) overlay() (*launcher.Overlay, error) {
	memory, err := dup(r.memory)
	if err != nil {
		return nil, err
	}

	return &launcher.Overlay{
		At: filepath.Join(r.l.stage.Mounts, overlayDir), Layers: r.s.Layers, SizeMiB: r.s.DiskMiB,
		Upper: r.l.passFile(memory), Base: r.l.base, IDs: imageUIDs,
		Points: []string{"/proc", "/dev"}, Folders: r.s.Tmpfs,
		Files: map[string]string{"/etc/hosts": imageconfig.HostsFile},
	}, nil
}

// mounts adds the image and the sandbox's own folders.
func (r *stepRun) mounts(c *composer) {
	c.opt("--bind", filepath.Join(r.l.stage.Overlay.At, "root"), "/", "--proc", "/proc", "--dev", "/dev")
	c.tmpfs("/dev/shm", max(r.s.DiskMiB/4, 1), "1777")
	c.opt("--remount-ro", "/dev")

	for _, folder := range r.s.Tmpfs {
		c.tmpfs(folder, r.s.DiskMiB, "1777")
	}
}

// argv returns bwrap with the descriptor of its options, and what it starts: sandboxd, which becomes the command.
func (r *stepRun) argv(argsFD int) ([]string, error) {
	program, err := os.Open(r.d.sandboxd)
	if err != nil {
		return nil, err
	}

	// the image has no place for it
	path := "/proc/self/fd/" + strconv.Itoa(r.l.passFile(program))

	first, err := r.first()
	if err != nil {
		return nil, err
	}

	return []string{
		r.d.bwrap, "--args", strconv.Itoa(argsFD), "--", path, prestart.FirstCommand, strconv.Itoa(first),
	}, nil
}

// enter prepares what the stage enters: the limited cgroup, user ids, limits.
func (r *stepRun) enter(cgroup string) error {
	l, d := r.l, r.d
	l.stage.Env, l.stage.Rlimits = []string{"PATH=/usr/bin:/bin"}, rlimits(r.spec())

	if d.cgroups != nil {
		e, err := d.cgroups.Create(cgroup, r.spec())
		if err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}

		folder := e.Folder
		if l.stage.Cgroups = e.Work; e.WorkFolder != "" {
			// the child is forked into it
			folder, l.stage.Cgroups = e.WorkFolder, nil
		}

		if folder != "" {
			if l.cgroup, err = os.Open(folder); err != nil {
				return err
			}
		}
	}

	uid, lock, err := d.uids.takeImage()
	if err != nil {
		return err
	}

	l.passFile(lock)
	l.private, l.base, l.stage.UID, l.stage.Mounts = true, uid, uid, d.uids.mounts

	return nil
}

// first passes the configuration of the command.
func (r *stepRun) first() (int, error) {
	user := prestart.User{UID: r.s.User.UID, GID: r.s.User.GID, Groups: r.s.User.Groups}
	if user.UID == 0 {
		user.Capabilities = process.RootCapabilities | 1<<unix.CAP_SYS_CHROOT
	}

	config, err := json.Marshal(prestart.Config{
		Argv: r.s.Argv, Env: r.s.Env, Path: r.s.Path, Dir: r.s.Dir, User: &user,
	})
	if err != nil {
		return 0, err
	}

	return r.l.addData("first", config)
}

// stepUsers is users for a step.
func (c *composer) stepUsers() error {
	for _, name := range []string{
		"SETUID", "SETGID", "SETPCAP", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "NET_BIND_SERVICE",
		"SYS_CHROOT",
	} {
		c.opt("--cap-add", "CAP_"+name)
	}

	n, err := newNamespace(c.launch.ids())
	if err != nil {
		return err
	}

	c.launch.namespace = n
	c.opt(
		"--info-fd", strconv.Itoa(c.launch.passFile(n.childInfo)),
		"--userns-block-fd", strconv.Itoa(c.launch.passFile(n.childGo)),
	)

	return nil
}

// admit opens the network of the sandbox and starts its command. stop closes the network.
func (r *stepRun) admit(ctx context.Context) (stop func(), err error) {
	stop = func() {}

	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()

	first, err := r.l.namespace.describe(ctx, r.dir)
	if err != nil {
		return stop, fault.Wrap(fault.Unavailable, err, "start the sandbox of a build")
	}

	if r.s.Network != nil {
		listener, err := listenIn(first.PID)
		if err != nil {
			return stop, fault.Wrap(fault.Unavailable, err, "network of a build")
		}

		served := make(chan struct{})

		go func() { r.s.Network(listener); close(served) }()

		stop = func() { _ = listener.Close(); <-served }
	}

	return stop, fault.Wrap(fault.Unavailable, r.l.namespace.admit(first), "start the sandbox of a build")
}

// endProcesses ends the processes of the step and removes its cgroup.
func (r *stepRun) endProcesses(ctx context.Context, cgroup string) error {
	ctx, cancel := context.WithTimeout(ctx, clearTime)
	defer cancel()

	if first, ok := readInit(r.dir); ok {
		if err := first.kill(); err != nil {
			return fault.Wrap(fault.Unavailable, err, "end a build")
		}
	}

	if r.d.cgroups == nil {
		return nil
	}

	return fault.Wrap(fault.Unavailable, r.d.cgroups.Remove(ctx, cgroup), "end a build")
}

// wait waits for the child's end and returns its exit status; that of a signal is 128 and its number, as in a shell.
func (c *child) wait() int {
	if c.pidfd != nil {
		defer c.pidfd.Close()
	}

	var status unix.WaitStatus

	for {
		_, err := unix.Wait4(c.pid, &status, 0, nil)

		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case status.Signaled():
			return 128 + int(status.Signal())
		default:
			return status.ExitStatus()
		}
	}
}

// listenIn listens in the network of a process, at the port of the sandboxes' proxy. The process may not have
// brought up its loopback interface yet, so the address is any.
func listenIn(pid int) (net.Listener, error) {
	_, port, err := net.SplitHostPort(wire.NetworkAddr)
	if err != nil {
		return nil, err
	}

	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer there.Close()

	type result struct {
		l   net.Listener
		err error
	}

	done := make(chan result, 1)
	// the thread of this goroutine ends with it: it has another network
	go func() {
		runtime.LockOSThread()

		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{err: err}
			return
		}

		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", "0.0.0.0:"+port)
		done <- result{l, err}
	}()

	r := <-done

	return r.l, r.err
}

// dup returns another descriptor of a file.
func dup(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}

	return os.NewFile(uintptr(fd), f.Name()), nil
}
