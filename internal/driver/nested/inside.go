package nested

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver/usage"
	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// inside sets up the sandbox and becomes sandboxd. It returns only on failure.
func inside(c Config) error {
	// the filter and the user belong to the thread that calls exec
	runtime.LockOSThread()

	steps := []struct {
		name string
		do   func(Config) error
	}{
		{"network", network},
		{"mounts", mounts},
		{"limits", limits},
		{"privileges", func(Config) error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"user", supervisor},
		{"system call filter", filter},
		{"exec", become},
	}
	for _, s := range steps {
		if err := s.do(c); err != nil {
			return fmt.Errorf("enclose: %s: %w", s.name, err)
		}
	}

	return nil
}

// network names the sandbox and brings up its only network device. An engine has done both in a container.
func network(c Config) error {
	if c.Image != nil {
		return nil
	}

	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return err
	}

	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}

	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)

	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

func limits(c Config) error {
	largest := uint64(max(c.HomeMiB, c.TmpMiB)) << 20
	for resource, most := range map[int]uint64{
		unix.RLIMIT_CORE:     0,
		unix.RLIMIT_NOFILE:   8192,
		unix.RLIMIT_FSIZE:    largest,
		unix.RLIMIT_MEMLOCK:  64 << 10,
		unix.RLIMIT_MSGQUEUE: 64 << 10,
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return err
		}

		most = min(most, now.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("resource %d to %d: %w", resource, most, err)
		}
	}

	return nil
}

// supervisorCapabilities are those of sandboxd at its start in a container: to change users and owners, and
// to kill. An agent can never have more.
const supervisorCapabilities = process.RootCapabilities | 1<<unix.CAP_SETPCAP

// supervisor gives sandboxd a user separate from the image's, which may be root. In a machine sandboxd is
// root of the sandbox.
func supervisor(c Config) error {
	if c.Image == nil {
		return nil
	}

	set := uint64(supervisorCapabilities)
	if c.Verifier {
		// for the place of the work; sandboxd drops it
		set |= 1 << unix.CAP_SYS_ADMIN
	}

	return prestart.Assume(prestart.User{UID: wire.SupervisorID, GID: wire.SupervisorID, Capabilities: set}, set, set)
}

// filter sets the system call filter; an instruction has 8 bytes.
func filter(c Config) error {
	if c.Verifier {
		// sandboxd sets it
		return nil
	}

	n := len(c.Filter) / 8
	if n == 0 {
		return errors.New("no filter")
	}

	program := make([]unix.SockFilter, n)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&program[0])), 8*n), c.Filter)
	p := unix.SockFprog{Len: uint16(n), Filter: &program[0]}

	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&p)), 0, 0)
}

// become replaces this process by sandboxd, which becomes the first process of the sandbox.
func become(c Config) error {
	env, err := json.Marshal(c.Env)
	if err != nil {
		return err
	}

	folders, processes, agent := []string{"/dev/shm", wire.AgentHome, "/run", "/tmp", verifier}, c.PIDs, []string(nil)
	switch {
	case c.Image != nil: // its users have the same ids in other containers: the container has the limit
		folders, processes, agent = append([]string{"/"}, folders...), 0, c.Image.Agent
	case len(c.Entrances) > 0:
		// the limit of the cgroup is reached first, and counts refusals
		processes++
		fallthrough
	default:
		folders = append(folders, "/var/tmp")
	}

	sources, err := json.Marshal(usage.Sources{Counters: c.Counters, Folders: folders})
	if err != nil {
		return err
	}

	if err := clearCloseOnExec(controlFD); err != nil {
		return err
	}

	program, err := os.Executable()
	if err != nil {
		return err
	}

	if c.Verifier {
		agent = append(agent, "--filter", base64.StdEncoding.EncodeToString(c.Filter))
	}

	return unix.Exec(program, append([]string{
		"sandboxd", "serve", "--control-fd", strconv.Itoa(controlFD), "--id", c.ID, "--lease", c.Lease,
		"--tree-limit", strconv.FormatInt(c.TreeBytes, 10), "--max-processes", strconv.Itoa(processes),
		"--separate-users", "--env", string(env), "--cgroup-fds", strings.Join(c.Entrances, ","), "--usage",
		string(sources),
	}, agent...), []string{})
}

func clearCloseOnExec(fd uintptr) error {
	_, err := unix.FcntlInt(fd, unix.F_SETFD, 0)
	return err
}
