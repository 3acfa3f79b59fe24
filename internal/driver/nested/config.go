// Package nested makes a sandbox inside a virtual machine or a container. It starts sandboxd as the first
// process of new namespaces.
//
// In a machine the sandbox sees the machine's files, but not its network, processes or user ids. In a
// container it has the container's image below a layer in memory, and the container's user ids and network.
//
// Everything else there, such as a provider's daemon, is outside. Outside processes reach sandboxd at
// ControlSocket; the sandbox's processes reach neither the socket nor the outside processes.
package nested

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/driver/usage"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Command is the argument that starts this package, followed by a Config as JSON. Inside is the step that
// it starts in the namespaces.
const (
	Command = "enclose"
	Inside  = "enclosed"
)

// Paths in the machine or the container.
const (
	Folder = "/opt/rolloutd"

	// only for root
	controlFolder = Folder + "/control"
	ControlSocket = controlFolder + "/control.sock"

	// output of sandboxd
	LogFile  = Folder + "/sandboxd.log"
	verifier = "/verifier"
)

// Config describes the sandbox.
type Config struct {
	ID string `json:"id"`

	// a duration
	Lease string  `json:"lease"`
	CPU   float64 `json:"cpu"`

	// memory of the sandbox's processes, if the machine has that much
	MemoryMiB int `json:"memory_mib"`
	HomeMiB   int `json:"home_mib"`
	TmpMiB    int `json:"tmp_mib"`

	// bound of one tar
	TreeBytes int64 `json:"tree_bytes"`

	// bound of the sandbox's processes; of those of each user where the machine has no cgroups
	PIDs int `json:"pids"`

	// the system call filter in the kernel's format
	Filter []byte `json:"filter"`

	// work is graded in the sandbox: sandboxd makes a place for it, then sets the filter
	Verifier bool `json:"verifier"`

	// base environment of processes
	Env wire.BaseEnv `json:"env"`

	// the image of a container; nil: a machine
	Image *Image `json:"image"`

	// Entrances are descriptors by which processes enter their cgroups, Counters the folders of the
	// cgroups' counters. In a machine Command sets both for Inside.
	Entrances []string       `json:"entrances"`
	Counters  usage.Counters `json:"counters"`
}

// baseID is the machine's id of the sandbox's user 0. Those of the two other users follow. None owns a file
// of the machine.
const baseID = 200_000

// Run executes Command or Inside with a configuration.
func Run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s needs exactly one configuration", args[0])
	}

	if err := expectMachine(args[0]); err != nil {
		return err
	}

	var c Config
	if err := json.Unmarshal([]byte(args[1]), &c); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}

	if args[0] == Inside {
		return inside(c)
	}

	return outside(c)
}

// expectMachine refuses a computer that the driver has not prepared: a manual call would cover the folders of a host.
func expectMachine(command string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}

	if filepath.Dir(program) != Folder {
		return fmt.Errorf("%s runs only from %s of a machine or a container that was made for a sandbox",
			command, Folder)
	}

	if command == Inside && os.Getpid() != 1 {
		return fmt.Errorf("%s runs only as the first process of its namespaces", command)
	}

	return nil
}
