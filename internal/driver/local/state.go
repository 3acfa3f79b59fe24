package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
)

// Files in a sandbox's folder.
const (
	stateFile = "state.json"

	// written by bwrap, so that it exists even if the creator has died
	infoFile    = "bwrap.json"
	controlFile = "control.sock"
	logFile     = "log"

	// empty; created when the sandbox is complete
	madeFile = "made"
)

// state is the stored description of a sandbox.
type state struct {
	ID        string            `json:"id"`
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt time.Time         `json:"created_at"`

	// its name in every hierarchy; "": none
	Cgroup    string  `json:"cgroup,omitempty"`
	CPU       float64 `json:"cpu,omitempty"`
	MemoryMiB int     `json:"memory_mib,omitempty"`
	HomeMiB   int     `json:"home_mib,omitempty"`

	// inode of the folder in which it was created
	Folder uint64 `json:"folder,omitempty"`
	// Fixed is the part of its spec that cannot change. HandedOver is when it got its current id from a handover.
	Fixed      *fixed    `json:"fixed,omitempty"`
	HandedOver time.Time `json:"handed_over,omitzero"`
	// DiedAt and Usage are set when the sandbox was found dead and its cgroups were removed.
	DiedAt time.Time     `json:"died_at,omitzero"`
	Usage  *driver.Usage `json:"usage,omitempty"`
}

// readState reads the state in dir. It is the zero value if the creator died before writing one.
func readState(dir string) (state, error) {
	var s state

	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return state{ID: filepath.Base(dir)}, nil
	}

	if err != nil {
		return s, err
	}

	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: %w", stateFile, err)
	}

	return s, nil
}

func (s state) info() driver.Info {
	return driver.Info{
		ID: s.ID, Labels: s.Labels, CreatedAt: s.CreatedAt, CPU: s.CPU, MemoryMiB: s.MemoryMiB, HomeMiB: s.HomeMiB,
	}
}

// inode identifies a folder among its copies.
func inode(dir string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}

	return st.Ino, nil
}

// copied reports whether dir is a copy of the sandbox's folder: the processes and cgroups in the state then
// belong to the original.
func (s state) copied(dir string) bool {
	here, err := inode(dir)
	return err == nil && s.Folder != 0 && s.Folder != here
}

func (s state) write(dir string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}

	temp := filepath.Join(dir, stateFile+".new")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}

	return os.Rename(temp, filepath.Join(dir, stateFile))
}

// initProcess is the sandbox's first process, as bwrap describes it in infoFile.
type initProcess struct {
	PID          int    `json:"child-pid"`
	PIDNamespace uint64 `json:"pid-namespace"`
}

func readInit(dir string) (initProcess, bool) {
	var p initProcess

	data, err := os.ReadFile(filepath.Join(dir, infoFile))
	if err != nil || json.Unmarshal(data, &p) != nil || p.PID <= 1 || p.PIDNamespace == 0 {
		return initProcess{}, false
	}

	return p, true
}

// kill kills the process if it is still the one that bwrap started: its number may have been reused, but
// not with the same namespace. Killing the first process of a namespace kills all of its processes.
func (p initProcess) kill() error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}

	if err != nil {
		return err
	}

	defer unix.Close(fd)

	if !p.same() {
		// gone, or another process
		return nil
	}

	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}

	return nil
}

// same reports whether the process of that number is still the sandbox's first.
func (p initProcess) same() bool {
	var ns unix.Stat_t

	err := unix.Stat(fmt.Sprintf("/proc/%d/ns/pid", p.PID), &ns)

	return err == nil && ns.Ino == p.PIDNamespace
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
