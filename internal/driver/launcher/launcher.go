// Package launcher is the step between the host and bwrap. It runs as a process and in a mount namespace of
// its own, as the user that creates the sandbox. Before it becomes bwrap it drops everything that the
// sandbox must not have: it enters the cgroups, sets resource limits, and becomes the sandbox's user.
//
// It is part of the sandboxd binary because that one starts in a millisecond; the daemon needs many.
package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
)

// Command is the argument that starts the stage; its configuration is JSON on ConfigFD.
const (
	Command  = "stage"
	ConfigFD = 3
)

// Config lists the actions of the stage, in the order of its fields.
type Config struct {
	// files to write "0" to, which moves the writing thread into the cgroup
	Cgroups []string `json:"cgroups"`
	// CgroupNamespace is a descriptor of the namespace to enter; 0: none
	CgroupNamespace int `json:"cgroup_namespace,omitempty"`
	// Network is a descriptor of the network namespace to enter; 0: none
	Network int `json:"network,omitempty"`

	// folder for gathered Binds; "": the sources of the binds are used directly
	Mounts string `json:"mounts"`

	// name below Mounts → host path
	Binds   map[string]string `json:"binds"`
	Overlay *Overlay          `json:"overlay,omitempty"`
	Rlimits []Rlimit          `json:"rlimits"`

	// 0: unchanged
	UID  int      `json:"uid"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
}

// Rlimit is a resource limit, soft and hard.
type Rlimit struct {
	Resource int    `json:"resource"`
	Max      uint64 `json:"max"`
}

// Run executes the configuration on ConfigFD. It returns only if that fails.
func Run() error {
	// The mount namespace and the cgroups belong to the thread that calls exec.
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
		{"network", enterNetwork},
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

// lowestPort has the lowest port on which a process of the network namespace may listen without a capability there.
const lowestPort = "/proc/sys/net/ipv4/ip_unprivileged_port_start"

// enterNetwork enters the network of another sandbox, which belongs to that one's user namespace: no user of this one
// has a capability there, and a service may need a low port, as every container may have one.
func enterNetwork(c Config) error {
	if c.Network == 0 {
		return nil
	}
	defer unix.Close(c.Network)

	if err := unix.Setns(c.Network, unix.CLONE_NEWNET); err != nil {
		return err
	}

	// where the settings of the kernel are read-only, services listen above port 1023 only
	if err := os.WriteFile(lowestPort, []byte("0"), 0); err != nil && !errors.Is(err, unix.EROFS) {
		return err
	}

	return nil
}

func limit(c Config) error {
	for _, l := range c.Rlimits {
		if err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Max, Max: l.Max}); err != nil {
			return fmt.Errorf("resource %d to %d: %w", l.Resource, l.Max, err)
		}
	}

	return nil
}

// becomeUser drops root for good, groups first. If root started bwrap, it would map the sandbox's user to
// the host's root, which is all that /proc/sys checks.
func becomeUser(c Config) error {
	if c.UID == 0 {
		return nil
	}

	return prestart.BecomeUser(c.UID, c.UID, nil)
}
