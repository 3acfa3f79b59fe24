// Package child is the step between sandboxd and a process that it starts: a process of its own, which gives up what the
// program must not have, becomes the program's user, and then becomes the program.
//
// A program is never started by a plain fork of sandboxd: between fork and exec such a process shares sandboxd's memory and
// already has the user of the program, so other processes of that user could stop it and sandboxd with it.
package child

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

// Command is the argument that asks a binary for this step.
const Command = "child"

// Descriptors of the step, beside the three streams of the program.
const (
	ConfigFD = 3 // to read Config from, as JSON
	StatusFD = 4 // to write Ready and a Failure to, as JSON; it is closed by a successful exec
	CgroupFD = 5 // the first of Config.Cgroups open files; a write of "0" moves the writing thread or process
)

// Ready is written to StatusFD right before the exec. A process that was killed before then, as where memory runs out, has not written it.
const Ready = "+"

// Config describes the program.
type Config struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Path string   `json:"path"` // where the program is looked for, in the form of $PATH
	Dir  string   `json:"dir"`
	User *User    `json:"user"` // nil: stays who it is
	// Terminal says that the streams are a terminal, which becomes the controlling one.
	Terminal bool `json:"terminal,omitempty"`
	Cgroups  int  `json:"cgroups"`
	// NoClone3 says that the sandbox's system call filter lets sandboxd call clone3. The program may not.
	NoClone3 bool `json:"no_clone3,omitempty"`
}

// User is who the program runs as.
type User struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups"`
	// Capabilities is a set of bits. The program and all that it starts have them; of user 0, until it becomes another user.
	Capabilities uint64 `json:"capabilities,omitempty"`
}

// Failure says why the program was not started.
type Failure struct {
	Kind    fault.Kind `json:"kind,omitempty"`  // set where the kind is known
	Errno   int        `json:"errno,omitempty"` // set where the kernel refused
	Message string     `json:"message"`
}

// Run does what ConfigFD says, and returns only when that failed. The failure has then been written to StatusFD.
func Run() error {
	runtime.LockOSThread() // the user of a thread is what exec takes over
	debug.SetGCPercent(-1) // at the process limit the runtime could not start a thread for it
	unix.CloseOnExec(StatusFD)
	err := run()
	_ = json.NewEncoder(os.NewFile(StatusFD, "status")).Encode(failureOf(err))
	return err
}

func run() error {
	c, err := readConfig()
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
	if c.NoClone3 {
		if err := refuseClone3(); err != nil {
			return fmt.Errorf("system call filter: %w", err)
		}
	}
	return execute(c)
}

func readConfig() (Config, error) {
	f := os.NewFile(ConfigFD, "config")
	defer f.Close()
	var c Config
	data, err := io.ReadAll(f)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(data, &c)
}

// preferForOOM makes the kernel pick the sandbox's processes before sandboxd when memory runs out: killing pid 1 would take the
// whole sandbox, with its logs. Without it the sandbox works, with a worse choice of victim.
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

// prepareThreads is for an entrance of version 2, which moves all threads of the process: at the cgroup's limit the runtime could start no other
// one, and would abort.
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

// become gives up sandboxd's user and every capability but those of the program's user, for good. A program of user id 0 gets the bounding
// set by exec, so that set is cut down to the user's capabilities; any other user's bounding set is emptied.
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

// Assume makes the calling thread, which the caller has locked its goroutine to and which is the one that execs, a process of that user. What it
// becomes by exec keeps the capabilities of ambient; as root, and whatever becomes root, those of bound.
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

// limitBoundingSet drops every capability that is not in the set.
func limitBoundingSet(set uint64) error {
	for c := uintptr(0); c < 64; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			return nil // past the last one
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
