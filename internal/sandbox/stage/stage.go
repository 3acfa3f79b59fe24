// Package stage is the step between the host and bwrap. It runs as a process of its own, in a mount namespace of its own, still
// as the user that made the sandbox, and gives away everything that the sandbox must not have before it becomes bwrap: it
// enters the cgroups, sets resource limits, and becomes the sandbox's own user.
//
// It is part of the sandboxd binary because that one starts in a millisecond; the daemon's takes many.
package stage

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/child"
)

// Command is the argument that asks a binary for the stage; its configuration is JSON on ConfigFD.
const (
	Command  = "stage"
	ConfigFD = 3
)

// Config is what the stage does, in the order of its fields.
type Config struct {
	Cgroups []string `json:"cgroups"` // files to write "0" to, which moves the writing thread
	// CgroupNamespace is a descriptor of the namespace to enter; 0: none
	CgroupNamespace int               `json:"cgroup_namespace,omitempty"`
	Mounts          string            `json:"mounts"` // folder to gather Binds in; "": the binds' sources are used as they are
	Binds           map[string]string `json:"binds"`  // name below Mounts → host path
	Overlay         *Overlay          `json:"overlay,omitempty"`
	Rlimits         []Rlimit          `json:"rlimits"`
	UID             int               `json:"uid"` // 0: stays who it is
	Argv            []string          `json:"argv"`
	Env             []string          `json:"env"`
}

// Rlimit is a resource limit, soft and hard.
type Rlimit struct {
	Resource int    `json:"resource"`
	Max      uint64 `json:"max"`
}

// Run does what ConfigFD says, and returns only when that failed.
func Run() error {
	// The mount namespace and the cgroups belong to the thread, which is the one that execs.
	runtime.LockOSThread()
	c, err := readConfig()
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	steps := []struct {
		name string
		do   func(Config) error
	}{
		{"cgroups", enterCgroups},
		{"cgroup namespace", enterCgroupNamespace},
		{"mounts", gather},
		{"image", mountOverlay},
		{"limits", limit},
		{"user", becomeUser},
		{"privileges", func(Config) error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"exec", func(c Config) error { return unix.Exec(c.Argv[0], c.Argv, c.Env) }},
	}
	for _, s := range steps {
		if err := s.do(c); err != nil {
			return fmt.Errorf("stage: %s: %w", s.name, err)
		}
	}
	return nil
}

func readConfig() (Config, error) {
	f := os.NewFile(ConfigFD, "config")
	defer f.Close()
	var c Config
	return c, json.NewDecoder(f).Decode(&c)
}

func enterCgroups(c Config) error {
	for _, path := range c.Cgroups {
		if err := os.WriteFile(path, []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}

func enterCgroupNamespace(c Config) error {
	if c.CgroupNamespace == 0 {
		return nil
	}
	defer unix.Close(c.CgroupNamespace)
	return unix.Setns(c.CgroupNamespace, unix.CLONE_NEWCGROUP)
}

func limit(c Config) error {
	for _, l := range c.Rlimits {
		if err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Max, Max: l.Max}); err != nil {
			return fmt.Errorf("resource %d to %d: %w", l.Resource, l.Max, err)
		}
	}
	return nil
}

// becomeUser gives up root for good, groups first: bwrap started by root maps the sandbox's user to the host's root, and /proc/sys
// asks for no more than that.
func becomeUser(c Config) error {
	if c.UID == 0 {
		return nil
	}
	return child.BecomeUser(c.UID, c.UID, nil)
}
