package enclose

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandbox/usage"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// inside closes the sandbox and becomes sandboxd. It returns only when that failed.
func inside(c Config) error {
	runtime.LockOSThread() // the filter belongs to the thread, which is the one that execs
	steps := []struct {
		name string
		do   func(Config) error
	}{
		{"host name", func(Config) error { return unix.Sethostname([]byte("sandbox")) }},
		{"loopback device", func(Config) error { return loopback() }},
		{"mounts", mounts},
		{"limits", limits},
		{"privileges", func(Config) error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
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

// loopback brings up the only network device.
func loopback() error {
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
		unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 8192, unix.RLIMIT_FSIZE: largest, unix.RLIMIT_MEMLOCK: 64 << 10, unix.RLIMIT_MSGQUEUE: 64 << 10,
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

// filter sets the system call filter, of instructions of 8 bytes.
func filter(c Config) error {
	n := len(c.Filter) / 8
	if n == 0 {
		return errors.New("there is none")
	}
	program := make([]unix.SockFilter, n)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&program[0])), 8*n), c.Filter)
	p := unix.SockFprog{Len: uint16(n), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&p)), 0, 0)
}

// become replaces this process by sandboxd, which is then the first one of the sandbox.
func become(c Config) error {
	env, err := json.Marshal(c.Env)
	if err != nil {
		return err
	}
	sources, err := json.Marshal(usage.Sources{
		Counters: c.Counters, Folders: []string{"/dev/shm", wire.AgentHome, "/run", "/tmp", "/var/tmp", verifier},
	})
	if err != nil {
		return err
	}
	processes := c.PIDs
	if len(c.Entrances) > 0 {
		processes++ // the limit of the cgroup is reached first, and counts what it refuses
	}
	if err := clearCloseOnExec(controlFD); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", []string{
		"sandboxd", "serve", "--control-fd", strconv.Itoa(controlFD), "--id", c.ID, "--lease", c.Lease,
		"--tree-limit", strconv.FormatInt(c.TreeBytes, 10), "--max-processes", strconv.Itoa(processes), "--separate-users", "--env", string(env),
		"--cgroup-fds", strings.Join(c.Entrances, ","), "--usage", string(sources),
	}, []string{})
}

func clearCloseOnExec(fd uintptr) error {
	_, err := unix.FcntlInt(fd, unix.F_SETFD, 0)
	return err
}

// folders makes those that sandboxd gives to the agent and the verifier.
func folders() error {
	if err := os.Mkdir(wire.AgentWorkdir, 0o755); err != nil {
		return err
	}
	for _, path := range []string{wire.VerifierHome, wire.VerifierTests, wire.VerifierLogs, wire.VerifierRun} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
	}
	return nil
}
