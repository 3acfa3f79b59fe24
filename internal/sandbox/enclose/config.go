// Package enclose makes a sandbox of a part of a virtual machine or of a container. From its root it starts sandboxd as the first process of namespaces
// of its own.
//
// In a machine the sandbox has the machine's files, but neither its network, its processes nor its user ids. In a container it has the container's
// image, with a layer in memory above it, and keeps the container's user ids and its network.
//
// What else runs there, such as a provider's daemon, is outside. Processes that are started from outside reach sandboxd at ControlSocket; those
// of the sandbox reach neither the socket nor them.
package enclose

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/sandbox/usage"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Command is the argument that asks a binary for this, followed by a Config as JSON. Inside is the step that it starts in the namespaces.
const (
	Command = "enclose"
	Inside  = "enclosed"
)

// Where things lie in the machine or the container.
const (
	Folder        = "/opt/rolloutd"
	controlFolder = Folder + "/control" // closed to all but root
	ControlSocket = controlFolder + "/control.sock"
	LogFile       = Folder + "/sandboxd.log" // what sandboxd says
	verifier      = "/verifier"
)

// Config describes the sandbox.
type Config struct {
	ID        string       `json:"id"`
	Lease     string       `json:"lease"` // a duration
	CPU       float64      `json:"cpu"`
	MemoryMiB int          `json:"memory_mib"` // of the sandbox's processes, where the machine has as much
	HomeMiB   int          `json:"home_mib"`
	TmpMiB    int          `json:"tmp_mib"`
	TreeBytes int64        `json:"tree_bytes"` // most bytes of one tar
	PIDs      int          `json:"pids"`       // of the sandbox; of each user where the machine has no cgroups
	Filter    []byte       `json:"filter"`     // the system call filter, as the kernel reads it
	Env       wire.BaseEnv `json:"env"`        // what processes start from
	Image     *Image       `json:"image"`      // of a container; nil: this is a machine

	// Entrances are descriptors through which processes enter their cgroups, and Counters the folders of what these count. Of a machine Command sets both, for Inside.
	Entrances []string       `json:"entrances"`
	Counters  usage.Counters `json:"counters"`
}

// baseID is the machine's id of the sandbox's user 0. The two other users follow it. None owns a file of the machine.
const baseID = 200_000

// Run takes Command or Inside and a configuration.
func Run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s wants one configuration", args[0])
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

// expectMachine refuses to change a computer that the driver has not prepared: a call by hand would cover the folders of a host.
func expectMachine(command string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if filepath.Dir(program) != Folder {
		return fmt.Errorf("%s runs only from %s of a machine or a container that was made for a sandbox", command, Folder)
	}
	if command == Inside && os.Getpid() != 1 {
		return fmt.Errorf("%s runs only as the first process of its namespaces", command)
	}
	return nil
}
