// Package cgroup limits the resources of a sandbox's processes and counts reached limits, for every layout of cgroups.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// parentName holds the cgroups of all sandboxes, in every hierarchy. A sandbox's cgroup holds two: one with
// sandboxd, one with its processes. Only the latter has the sandbox's limits, so that no process can take
// memory, CPU time or process numbers from sandboxd.
const (
	parentName   = "rolloutd"
	sandboxdName = "sandboxd"
	workName     = "work"
)

// procsFile lists the processes of a cgroup of version 2.
const procsFile = "cgroup.procs"

// sandboxdReserve is the memory of a whole sandbox beyond that of its processes, in bytes. It includes
// files that sandboxd writes; beyond the reserve they reduce the processes' memory.
const sandboxdReserve = 256 << 20

// Hierarchy is the layout of this machine's cgroups: version 2, version 1 with a folder per controller, or both.
type Hierarchy struct {
	// version of the controllers; 0: there are none
	Version int

	// root of the version 2 tree; "": there is none
	Root string

	// sandboxes may swap
	Swap bool
	v1   map[string]string
}

// New detects the layout at root.
func New(root string) *Hierarchy {
	if exists(filepath.Join(root, "cgroup.controllers")) {
		return &Hierarchy{Version: 2, Root: root}
	}

	h := &Hierarchy{v1: map[string]string{}}

	for _, c := range []string{"memory", "pids", "cpu", "cpuacct"} {
		if exists(filepath.Join(root, c, "cgroup.procs")) {
			h.v1[c] = filepath.Join(root, c)
		}
	}

	if len(h.v1) == 4 {
		h.Version = 1
	}
	// A version 2 tree is useful without controllers too: it kills all members at once.
	if unified := filepath.Join(root, "unified"); exists(filepath.Join(unified, "cgroup.procs")) {
		h.Root = unified
	}

	return h
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Prepare creates the parent cgroups.
func (h *Hierarchy) Prepare() error {
	if h.Version == 0 {
		return errors.New("the controllers memory, pids and cpu must all be available")
	}

	for _, parent := range h.folders() {
		if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}

	if h.Version == 1 {
		return nil
	}

	for _, at := range []string{h.Root, filepath.Join(h.Root, parentName)} {
		if err := write(at, "cgroup.subtree_control", "+memory +pids +cpu"); err != nil {
			return fmt.Errorf("delegate controllers: %w", err)
		}
	}

	return nil
}

// folders returns the cgroup's folder in each hierarchy, those of controllers first. Without a name it
// returns those of the parents.
func (h *Hierarchy) folders(name ...string) []string {
	below := filepath.Join(append([]string{parentName}, name...)...)

	var list []string

	for _, c := range []string{"memory", "pids", "cpu", "cpuacct"} {
		if at, ok := h.v1[c]; ok {
			list = append(list, filepath.Join(at, below))
		}
	}

	if h.Root != "" {
		list = append(list, filepath.Join(h.Root, below))
	}

	return list
}

func write(folder, file, value string) error {
	return os.WriteFile(filepath.Join(folder, file), []byte(value), 0o600)
}
