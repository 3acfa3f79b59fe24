package sandboxd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/view"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// PlaceCommand is the argument that starts the first process of a place of the work.
const PlaceCommand = "place"

// Place is where a verifier's sandbox runs the graded work: namespaces of processes, mounts and System V
// objects of its own. Their first process is a second sandboxd, which starts what run-as-agent names; see
// package runas. The place shares with the verifier the folders that the agent's user may write, and the
// network. It has neither the verifier's folders nor its processes.
//
// In turn the kernel follows no link and opens no device in these folders for the verifier's processes, and
// executes nothing there.
type Place struct {
	// id of its first process
	PID int

	// folders that the work may write
	Shared []string

	// those below which package prestart lets the verifier execute nothing; empty: the mounts forbid it
	NoExec []string
}

func (p *Place) pid() int {
	if p == nil {
		return 0
	}

	return p.PID
}

func (p *Place) shared() []string {
	if p == nil {
		return nil
	}

	return p.Shared
}

func (p *Place) noExec() []string {
	if p == nil {
		return nil
	}

	return p.NoExec
}

// Descriptors of the place's first process, besides its three streams.
const (
	// a placeConfig is read from it, as JSON
	placeConfigFD = 3

	// closed after placeReady was written, when the place is ready; or after the error
	placeReadyFD = 4

	// the listening socket of run-as-agent
	placeListenFD = 5

	// the cgroups' files, the folder last
	placeFilesFD = 6
)

const placeReady = "ready"

type placeConfig struct {
	Agent     process.Agent `json:"agent"`
	StartIn   wire.Workdir  `json:"start_in,omitempty"`
	Filter    []byte        `json:"filter"`
	Env       wire.BaseEnv  `json:"env"`
	Cgroups   int           `json:"cgroups"`
	Cgroup    bool          `json:"cgroup"`
	Processes uint64        `json:"processes"`
}

// startPlace starts the place of the work, waits until it is ready, and then closes this process's view of
// the shared folders.
func (o Separation) startPlace() (*Place, error) {
	listener, err := process.ListenRunAs()
	if err != nil {
		return nil, err
	}
	defer listener.Close()

	socket, err := listener.File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()

	p := &Place{}
	if p.PID, err = o.forkPlace(socket); err != nil {
		return nil, err
	}

	shared, err := view.Shared()
	if err != nil {
		return nil, err
	}

	p.Shared = view.Paths(shared)
	if prestart.CanRefuseExec() {
		p.NoExec = p.Shared
	}

	return p, view.Close(shared, len(p.NoExec) == 0)
}

func (o Separation) forkPlace(socket *os.File) (int, error) {
	config, err := json.Marshal(placeConfig{
		Agent:     o.Agent,
		StartIn:   o.StartIn,
		Filter:    o.Filter,
		Env:       o.Env,
		Cgroups:   len(o.Cgroups),
		Cgroup:    o.Cgroup != nil,
		Processes: o.Processes,
	})
	if err != nil {
		return 0, err
	}

	configFile, err := memoryFile("place", config)
	if err != nil {
		return 0, err
	}
	defer configFile.Close()

	ready, childReady, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer ready.Close()

	files := []uintptr{0, 1, 2, configFile.Fd(), childReady.Fd(), socket.Fd()}
	for _, f := range o.cgroupFiles() {
		files = append(files, f.Fd())
	}

	pid, err := syscall.ForkExec("/proc/self/exe", []string{"sandboxd", PlaceCommand}, &syscall.ProcAttr{
		Dir: "/", Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC},
	})
	_ = childReady.Close()

	if err != nil {
		return 0, fmt.Errorf("namespaces: %w", err)
	}

	answer, err := io.ReadAll(io.LimitReader(ready, 4096))
	if err == nil && string(answer) != placeReady {
		err = fmt.Errorf("its first process ended: %s", answer)
	}

	return pid, err
}

func (o Separation) cgroupFiles() []*os.File {
	if o.Cgroup == nil {
		return o.Cgroups
	}

	return append(slices.Clone(o.Cgroups), o.Cgroup)
}

func memoryFile(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}

	f := os.NewFile(uintptr(fd), name)
	if _, err = f.Write(data); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}

	if err != nil {
		return nil, errors.Join(err, f.Close())
	}

	return f, nil
}

// ServePlace is the first process of a place of the work. It returns when ctx ends or the socket breaks.
func ServePlace(ctx context.Context) error {
	table, listener, err := openPlace()

	ready := os.NewFile(placeReadyFD, "ready")
	if err != nil {
		_, _ = io.WriteString(ready, err.Error())
		return err
	}

	failed := make(chan error, 2)
	go func() { failed <- table.Run(ctx) }()
	go func() { failed <- table.ServeRunAs(ctx, listener) }()

	_, _ = io.WriteString(ready, placeReady)
	_ = ready.Close()
	// the end of this process ends the other one, and every process of the place
	return <-failed
}

func openPlace() (*process.Table, *net.UnixListener, error) {
	config := os.NewFile(placeConfigFD, "config")
	defer config.Close()

	var c placeConfig
	if err := json.NewDecoder(config).Decode(&c); err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}

	socket := os.NewFile(placeListenFD, "run-as-agent")
	defer socket.Close()

	listener, err := net.FileListener(socket)
	if err != nil {
		return nil, nil, err
	}

	if err := view.Separate(c.Env.Agent[runas.OwnImage] == "1"); err != nil {
		return nil, nil, err
	}

	if err := (Separation{Agent: c.Agent, Filter: c.Filter}).confine(); err != nil {
		return nil, nil, err
	}

	table := process.New(process.Options{
		SeparateUsers: true, Agent: c.Agent, StartIn: c.StartIn, Env: c.Env, Program: "/proc/self/exe", OwnNamespace: true,
		Cgroups: c.openCgroups(), Cgroup: c.openCgroup(), Logger: slog.New(slog.DiscardHandler),
	})

	if err := Guard(); err != nil {
		return nil, nil, err
	}

	return table, listener.(*net.UnixListener), LimitProcesses(c.Processes)
}

func (c placeConfig) openCgroups() (files []*os.File) {
	for fd := placeFilesFD; fd < placeFilesFD+c.Cgroups; fd++ {
		files = append(files, os.NewFile(uintptr(fd), "cgroup"))
	}

	return files
}

func (c placeConfig) openCgroup() *os.File {
	if !c.Cgroup {
		return nil
	}

	return os.NewFile(uintptr(placeFilesFD+c.Cgroups), "cgroup")
}

// LimitProcesses bounds the processes and threads of this user in this user namespace, which has no other
// sandbox; 0: no limit. A limit set outside of the namespace would count all processes of the user on the
// host. For an ordinary user, who has no cgroups, it is the only limit.
func LimitProcesses(most uint64) error {
	if most == 0 {
		return nil
	}

	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("limit processes: %w", err)
	}

	return nil
}
