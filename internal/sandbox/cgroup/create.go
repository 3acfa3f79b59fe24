package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/usage"
)

// Entrances are the ways into the cgroups of a sandbox: sandboxd's, and those of its processes.
//
// A write to cgroup.procs takes a lock of the whole kernel, for which it waits some 10 ms. Two ways need no such lock: a thread
// writes "0" to the tasks file of version 1, which moves it alone, and a fork places the child into a version 2 folder.
type Entrances struct {
	Folder     string   // of version 2, which sandboxd is forked into; "": none
	Sandboxd   []string // files to which the stage writes "0"
	WorkFolder string   // of version 2, which a started process is forked into; "": none
	Work       []string // files to which a started process writes "0" where it was not forked into WorkFolder
	Reclaim    string   // file to which a number of bytes is written to swap out memory of the started processes; "": none
}

// Create makes the cgroups of a sandbox with their limits.
func (h *Hierarchy) Create(name string, spec driver.Spec) (Entrances, error) {
	e := h.entrances(name)
	for _, names := range [][]string{{name}, {name, sandboxdName}, {name, workName}} {
		for _, folder := range h.folders(names...) {
			if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return e, err
			}
		}
		if len(names) == 1 && h.Version == 2 {
			if err := write(filepath.Join(h.Root, parentName, name), "cgroup.subtree_control", "+memory +pids +cpu"); err != nil {
				return e, fmt.Errorf("delegate controllers: %w", err)
			}
		}
	}
	e.Reclaim = h.reclaim(name)
	return e, h.Limit(name, spec)
}

// reclaim is the file that frees memory of the processes. That of version 1 frees all that it can, whatever is written to it.
func (h *Hierarchy) reclaim(name string) string {
	at := filepath.Join(h.v1["memory"], parentName, name, workName, "memory.force_empty")
	if h.Version == 2 {
		at = filepath.Join(h.Root, parentName, name, workName, "memory.reclaim") // since Linux 5.19
	}
	if !h.Swap || !exists(at) {
		return ""
	}
	return at
}

func (h *Hierarchy) entrances(name string) Entrances {
	var e Entrances
	if h.Root != "" {
		e.Folder = filepath.Join(h.Root, parentName, name, sandboxdName)
	}
	if h.Version == 2 {
		e.WorkFolder = filepath.Join(h.Root, parentName, name, workName)
		e.Work = []string{filepath.Join(e.WorkFolder, procsFile)}
		return e
	}
	// A version 2 tree beside version 1 has no limits: the processes stay where sandboxd is.
	for _, controller := range slices.Sorted(maps.Keys(h.v1)) {
		at := h.v1[controller]
		e.Sandboxd = append(e.Sandboxd, filepath.Join(at, parentName, name, sandboxdName, "tasks"))
		e.Work = append(e.Work, filepath.Join(at, parentName, name, workName, "tasks"))
	}
	return e
}

// Delegate lets a user fork from sandboxd's cgroup of version 2 into that of the processes. The kernel asks for the right to write the list of the
// one that is entered, and of the one that both are in. The limits, and all other cgroups, stay root's.
func (h *Hierarchy) Delegate(name string, uid int) error {
	if h.Version != 2 {
		return nil
	}
	at := filepath.Join(h.Root, parentName, name)
	return errors.Join(os.Chown(filepath.Join(at, procsFile), uid, -1), os.Chown(filepath.Join(at, workName, procsFile), uid, -1))
}

// Whole makes the version 2 folder that holds all cgroups of a sandbox, in which a process may be until Create; "" in other versions.
func (h *Hierarchy) Whole(name string) (string, error) {
	if h.Version != 2 {
		return "", nil
	}
	at := filepath.Join(h.Root, parentName, name)
	if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return at, nil
}

// Limit sets the limits of a sandbox's cgroups, new ones or those of a living sandbox.
func (h *Hierarchy) Limit(name string, spec driver.Spec) error {
	if h.Version == 2 {
		return h.limit2(name, spec)
	}
	return h.limit1(name, spec)
}

const cpuPeriod = 100_000 // µs

func (h *Hierarchy) limit1(name string, spec driver.Spec) error {
	at := func(controller string, below ...string) string {
		return filepath.Join(append([]string{h.v1[controller], parentName, name}, below...)...)
	}
	return errors.Join(
		limitMemory1(at("memory"), spec.MemoryMiB<<20+sandboxdReserve),
		limitMemory1(at("memory", workName), spec.MemoryMiB<<20),
		write(at("pids", workName), "pids.max", strconv.Itoa(spec.PIDs)),
		write(at("cpu", workName), "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)),
		write(at("cpu", workName), "cpu.cfs_quota_us", strconv.Itoa(int(spec.CPU*cpuPeriod))),
		write(at("cpu"), "cpu.shares", share(spec, "2", "1024")),
	)
}

// share is the sandbox's weight among its siblings: least for an idle one, else the kernel's default.
func share(spec driver.Spec, least, usual string) string {
	if spec.Idle {
		return least
	}
	return usual
}

// limitMemory1 limits memory, and memory with swap where the kernel accounts for swap. The second must never be below the first. A sandbox does not get
// more memory by swapping, but the kernel may swap out what it has.
func limitMemory1(at string, bytes int) error {
	files := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	if !exists(filepath.Join(at, files[1])) {
		files = files[:1]
	} else if int64(bytes) > usage.Keyed(at, files[1], "") {
		slices.Reverse(files)
	}
	for _, file := range files {
		if err := write(at, file, strconv.Itoa(bytes)); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hierarchy) limit2(name string, spec driver.Spec) error {
	at := filepath.Join(h.Root, parentName, name)
	work := filepath.Join(at, workName)
	err := errors.Join(
		write(at, "memory.max", strconv.Itoa(spec.MemoryMiB<<20+sandboxdReserve)),
		write(work, "memory.max", strconv.Itoa(spec.MemoryMiB<<20)),
		write(work, "pids.max", strconv.Itoa(spec.PIDs)),
		write(work, "cpu.max", fmt.Sprintf("%d %d", int(spec.CPU*cpuPeriod), cpuPeriod)),
		write(at, "cpu.weight", share(spec, "1", "100")),
	)
	if swap := "memory.swap.max"; exists(filepath.Join(at, swap)) {
		most := 0
		if h.Swap {
			most = spec.MemoryMiB << 20
		}
		err = errors.Join(err, write(at, swap, strconv.Itoa(most)))
	}
	return err
}
