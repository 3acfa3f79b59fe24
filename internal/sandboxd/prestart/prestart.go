// Package prestart is the step between sandboxd and a program that it starts. It runs as a process of its
// own, drops what the program must not have, becomes the program's user, and executes the program.
//
// sandboxd never starts a program by a plain fork: between fork and exec such a process shares sandboxd's
// memory and already has the program's user, so other processes of that user could stop it, and sandboxd
// with it.
package prestart

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Command is the argument that starts this step.
const Command = "child"

// Descriptors of the step, besides the program's three streams.
const (
	// Config is read from it, as JSON
	ConfigFD = 3

	// Ready and a Failure are written to it, as JSON; a successful exec closes it
	StatusFD = 4

	// the first of Config.Cgroups open files; writing "0" moves the writing thread or process
	CgroupFD = 5
)

// Ready is written to StatusFD right before the exec. It is missing if the process was killed before, for
// instance for lack of memory.
const Ready = "+"

// Config describes the program.
type Config struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`

	// search path of the program, in the form of $PATH
	Path string `json:"path"`
	Dir  string `json:"dir"`
	// OrDir is entered if Dir cannot be; "": none
	OrDir string `json:"or_dir,omitempty"`

	// nil: unchanged
	User *User `json:"user"`
	// Terminal: the streams are a terminal, which becomes the controlling one.
	Terminal bool `json:"terminal,omitempty"`
	Cgroups  int  `json:"cgroups"`
	// NoClone3 forbids the program clone3, which the sandbox's system call filter allows for sandboxd.
	NoClone3 bool `json:"no_clone3,omitempty"`
	// NoExec are folders below which the kernel lets the program and its children execute nothing.
	NoExec []string `json:"no_exec,omitempty"`
}

// User is the user of the program.
type User struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups"`
	// Capabilities is a bit set of capabilities of the program and its children; for user 0, until it changes its user.
	Capabilities uint64 `json:"capabilities,omitempty"`
}

// Failure says why the program was not started.
type Failure struct {
	// set if the kind is known
	Kind fault.Kind `json:"kind,omitempty"`

	// set if the kernel refused
	Errno   int    `json:"errno,omitempty"`
	Message string `json:"message"`
}

// Run executes the configuration on ConfigFD. It returns only if that fails, after writing the failure to StatusFD.
func Run() error {
	// exec keeps the user of the calling thread
	runtime.LockOSThread()
	// at the process limit the runtime could not start a thread for it
	debug.SetGCPercent(-1)
	unix.CloseOnExec(StatusFD)

	err := run()
	_ = json.NewEncoder(os.NewFile(StatusFD, "status")).Encode(failureOf(err))

	return err
}

func run() error {
	c, err := readConfig(ConfigFD)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}

	if c.Terminal {
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			return fmt.Errorf("controlling terminal: %w", err)
		}
	}

	preferForOOM()

	if err := enterCgroups(c.Cgroups); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}

	if err := restoreUnhandled(); err != nil {
		return err
	}

	if err := become(c.User); err != nil {
		return fmt.Errorf("user: %w", err)
	}

	if len(c.NoExec) > 0 {
		if err := refuseExec(c.NoExec); err != nil {
			return fmt.Errorf("refuse programs of the work: %w", err)
		}
	}

	if c.NoClone3 {
		if err := refuseClone3(); err != nil {
			return fmt.Errorf("system call filter: %w", err)
		}
	}

	return execute(c)
}

func readConfig(fd int) (Config, error) {
	f := os.NewFile(uintptr(fd), "config")
	defer f.Close()

	var c Config

	data, err := io.ReadAll(f)
	if err != nil {
		return c, err
	}

	return c, json.Unmarshal(data, &c)
}

// preferForOOM makes the OOM killer prefer the sandbox's processes to sandboxd: killing pid 1 would end the
// whole sandbox and lose its logs. A failure only worsens the choice of victim.
func preferForOOM() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0) }

func enterCgroups(n int) error {
	for fd := CgroupFD; fd < CgroupFD+n; fd++ {
		if err := prepareThreads(fd); err != nil {
			return err
		}

		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return err
		}

		_ = unix.Close(fd)
	}

	return nil
}

// prepareThreads starts threads before the process enters a version 2 cgroup with all its threads: at the
// cgroup's limit the runtime could not start another one, and would abort.
func prepareThreads(entrance int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(entrance, &fs); err != nil {
		return err
	}

	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		WarmThreads(4)
	}

	return nil
}

// become drops sandboxd's user and every capability except those of the program's user, for good. A program
// of user id 0 gets the bounding set by exec, so that set is reduced to the user's capabilities; for any
// other user it is emptied.
func become(u *User) error {
	if u == nil {
		return nil
	}

	ambient, bound := u.Capabilities, uint64(0)
	if u.UID == 0 {
		ambient, bound = 0, u.Capabilities
	}

	return Assume(*u, ambient, bound)
}

// Assume sets the user of the calling thread, to which the caller has locked its goroutine and which then
// calls exec. Programs keep the capabilities in ambient across exec; root gets those in bound.
func Assume(u User, ambient, bound uint64) error {
	if err := setInheritable(ambient); err != nil {
		return fmt.Errorf("inheritable set: %w", err)
	}

	if err := limitBoundingSet(bound); err != nil {
		return fmt.Errorf("bounding set: %w", err)
	}

	if err := BecomeUser(u.UID, u.GID, u.Groups); err != nil {
		return err
	}

	if err := leave(u.Capabilities, ambient); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}

	return nil
}

// limitBoundingSet drops every capability outside of the set.
func limitBoundingSet(set uint64) error {
	for c := uintptr(0); c < 64; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			// past the last one
			return nil
		}

		if has == 0 || set&(1<<c) != 0 {
			continue
		}

		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}

	return nil
}
