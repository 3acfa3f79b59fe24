package sandboxd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/child"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// PlaceCommand is the argument that starts the first process of a place of the work.
const PlaceCommand = "place"

// Place is where a verifier's sandbox runs the graded work: namespaces of processes, mounts and System V objects of its own. Their first
// process is a second sandboxd, which starts what run-as-agent names; see package runas. The place shares with the verifier the
// folders that the agent's user may write, and the network. It has neither the verifier's folders nor its processes.
//
// In turn the kernel follows no link and opens no device in these folders for the verifier's processes, and executes nothing there.
type Place struct {
	PID    int      // of its first process
	NoExec []string // folders below which package child lets the verifier execute nothing; empty: the mounts forbid it
}

func (p *Place) pid() int {
	if p == nil {
		return 0
	}
	return p.PID
}

func (p *Place) noExec() []string {
	if p == nil {
		return nil
	}
	return p.NoExec
}

// Descriptors of the place's first process, besides its three streams.
const (
	placeConfigFD = 3 // a placeConfig is read from it, as JSON
	placeReadyFD  = 4 // closed after placeReady was written, when the place is ready; or after the error
	placeListenFD = 5 // the listening socket of run-as-agent
	placeFilesFD  = 6 // the cgroups' files, the folder last
)

const placeReady = "ready"

type placeConfig struct {
	Agent     process.Agent `json:"agent"`
	Filter    []byte        `json:"filter"`
	Env       wire.BaseEnv  `json:"env"`
	Cgroups   int           `json:"cgroups"`
	Cgroup    bool          `json:"cgroup"`
	Processes uint64        `json:"processes"`
}

// startPlace starts the place of the work, waits until it is ready, and then closes this process's view of the shared folders.
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
	shared, err := sharedMounts()
	if err != nil {
		return nil, err
	}
	if child.CanRefuseExec() {
		p.NoExec = paths(shared)
	}
	return p, closeView(shared, len(p.NoExec) == 0)
}

func (o Separation) forkPlace(socket *os.File) (int, error) {
	config, err := json.Marshal(placeConfig{
		Agent: o.Agent, Filter: o.Filter, Env: o.Env, Cgroups: len(o.Cgroups), Cgroup: o.Cgroup != nil, Processes: o.Processes,
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

	said, err := io.ReadAll(io.LimitReader(ready, 4096))
	if err == nil && string(said) != placeReady {
		err = fmt.Errorf("its first process ended: %s", said)
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
	return <-failed // the end of this process ends the other one, and every process of the place
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

	if err := separateMounts(); err != nil {
		return nil, nil, err
	}
	if err := (Separation{Agent: c.Agent, Filter: c.Filter}).confine(); err != nil {
		return nil, nil, err
	}
	table := process.New(process.Options{
		SeparateUsers: true, Agent: c.Agent, Env: c.Env, Program: "/proc/self/exe", OwnNamespace: true,
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

// LimitProcesses bounds the processes and threads of this user in this user namespace, which has no other sandbox; 0: no limit. A limit
// set outside of the namespace would count all processes of the user on the host. For an ordinary user, who has no cgroups, it is the
// only limit.
func LimitProcesses(most uint64) error {
	if most == 0 {
		return nil
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("limit processes: %w", err)
	}
	return nil
}

// separateMounts gives the place of the work a /proc of its own, and empty folders in place of the verifier's.
func separateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}

	verifier := filepath.Dir(wire.VerifierHome)
	if err := unix.Mount("rolloutd", verifier, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=0755"); err != nil {
		return fmt.Errorf("%s: %w", verifier, err)
	}
	for _, folder := range []string{wire.VerifierHome, wire.VerifierTests, wire.VerifierLogs, wire.VerifierRun} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
	}
	if err := remount(verifier, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC); err != nil {
		return err
	}

	hidden := fmt.Sprintf("hidepid=invisible,gid=%d", os.Getgid())
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, hidden); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	return ProtectProc("/proc")
}

// ProtectProc makes the parts of a /proc read-only by which settings of the kernel are changed.
func ProtectProc(proc string) error {
	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs"} {
		at := filepath.Join(proc, name)
		err := unix.Mount(at, at, "", unix.MS_BIND|unix.MS_REC, "")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = remount(at, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
		}
		if err != nil {
			return fmt.Errorf("%s read-only: %w", at, err)
		}
	}
	return nil
}

// sharedMount is a mount point of a folder that the agent's user may write.
type sharedMount struct {
	path  string
	flags uintptr
}

func paths(all []sharedMount) []string {
	list := make([]string, len(all))
	for i, m := range all {
		list[i] = m.path
	}
	return list
}

// sharedMounts returns the writable mounts of this process, except the verifier's and the kernel's own.
func sharedMounts() ([]sharedMount, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()

	var all []sharedMount
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if m, ok := parseMount(lines.Text()); ok && !ownMount(m.path) {
			all = append(all, m)
		}
	}
	return all, lines.Err()
}

// ownMount reports whether a writable mount is none of the agent's folders. The root of a machine is writable, but not for the agent.
func ownMount(path string) bool {
	if path == "/" {
		return true
	}
	for _, own := range []string{"/verifier", "/proc", "/sys", "/opt/rolloutd", "/dev"} {
		if (path == own || strings.HasPrefix(path, own+"/")) && path != "/dev/shm" {
			return true
		}
	}
	return false
}

// parseMount parses a line of mountinfo: id parent major:minor root point options …; see proc_pid_mountinfo(5). It is false for a
// read-only mount.
func parseMount(line string) (sharedMount, bool) {
	const pointField, optionsField = 4, 5
	fields := strings.Fields(line)
	if len(fields) <= optionsField {
		return sharedMount{}, false
	}

	m := sharedMount{path: unescapeMount.Replace(fields[pointField])}
	known := map[string]uintptr{"nosuid": unix.MS_NOSUID, "noexec": unix.MS_NOEXEC, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME}
	for option := range strings.SplitSeq(fields[optionsField], ",") {
		if option == "ro" {
			return sharedMount{}, false
		}
		m.flags |= known[option]
	}
	return m, true
}

// unescapeMount undoes the kernel's escapes of white space in a path.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// closeView makes the kernel follow no link and open no device in the shared folders for this process's mount namespace. noExec also
// forbids to execute files there, for a kernel without Landlock.
func closeView(shared []sharedMount, noExec bool) error {
	for _, m := range shared {
		flags := m.flags | unix.MS_NOSYMFOLLOW | unix.MS_NODEV | unix.MS_NOSUID
		if noExec {
			flags |= unix.MS_NOEXEC
		}
		if err := remount(m.path, flags); err != nil {
			return err
		}
	}
	return nil
}

func remount(path string, flags uintptr) error {
	if err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("mount options of %s: %w", path, err)
	}
	return nil
}
