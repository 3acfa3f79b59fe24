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

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/usage"
)

// Entrances are the files by which sandboxd and the processes of a sandbox enter their cgroups.
//
// A write to cgroup.procs takes a kernel-wide lock, for which it waits about 10 ms. Two ways need no such
// lock: a thread writes "0" to the tasks file of version 1, which moves only that thread, and a fork places
// the child into a version 2 folder.
type Entrances struct {
	// folder of version 2 into which sandboxd is forked; "": none
	Folder string

	// files to which the stage writes "0"
	Sandboxd []string

	// folder of version 2 into which started processes are forked; "": none
	WorkFolder string

	// files to which a process writes "0" if it was not forked into WorkFolder
	Work []string

	// file that takes a number of bytes of the processes' memory to swap out; "": none
	Reclaim string
}

// Create creates the cgroups of a sandbox with their limits.
func (h *Hierarchy) Create(name string, spec driver.Spec) (Entrances, error) {
	e := h.entrances(name)
	for _, names := range [][]string{{name}, {name, sandboxdName}, {name, workName}} {
		for _, folder := range h.folders(names...) {
			if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return e, err
			}
		}

		if len(names) == 1 && h.Version == 2 {
			if err := write(
				filepath.Join(h.Root, parentName, name),
				"cgroup.subtree_control",
				"+memory +pids +cpu",
			); err != nil {
				return e, fmt.Errorf("delegate controllers: %w", err)
			}
		}
	}

	e.Reclaim = h.reclaim(name)

	return e, h.Limit(name, spec)
}

// reclaim returns the file that frees memory of the processes. That of version 1 frees as much as it can,
// whatever is written.
func (h *Hierarchy) reclaim(name string) string {
	at := filepath.Join(h.v1["memory"], parentName, name, workName, "memory.force_empty")
	if h.Version == 2 {
		// since Linux 5.19
		at = filepath.Join(h.Root, parentName, name, workName, "memory.reclaim")
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
	// A version 2 tree beside version 1 has no limits, so the processes stay in sandboxd's cgroup there.
	for _, controller := range slices.Sorted(maps.Keys(h.v1)) {
		at := h.v1[controller]
		e.Sandboxd = append(e.Sandboxd, filepath.Join(at, parentName, name, sandboxdName, "tasks"))
		e.Work = append(e.Work, filepath.Join(at, parentName, name, workName, "tasks"))
	}

	return e
}

// Delegate lets a user fork from sandboxd's version 2 cgroup into that of the processes. The kernel
// requires write access to the process list of the entered cgroup and of the common parent. Root keeps the
// limits and all other cgroups.
func (h *Hierarchy) Delegate(name string, uid int) error {
	if h.Version != 2 {
		return nil
	}

	at := filepath.Join(h.Root, parentName, name)

	return errors.Join(
		os.Chown(filepath.Join(at, procsFile), uid, -1),
		os.Chown(filepath.Join(at, workName, procsFile), uid, -1),
	)
}

// CreateFolder creates the version 2 folder with all cgroups of a sandbox, in which a process may be until Create;
// "": another version.
func (h *Hierarchy) CreateFolder(name string) (string, error) {
	if h.Version != 2 {
		return "", nil
	}

	at := filepath.Join(h.Root, parentName, name)
	if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}

	return at, nil
}

// Limit sets the limits of a sandbox's cgroups, new or in use.
func (h *Hierarchy) Limit(name string, spec driver.Spec) error {
	if h.Version == 2 {
		return h.limit2(name, spec)
	}

	return h.limit1(name, spec)
}

// µs
const cpuPeriod = 100_000

func (h *Hierarchy) limit1(name string, spec driver.Spec) error {
	at := func(controller string, below ...string) string {
		return filepath.Join(append([]string{h.v1[controller], parentName, name}, below...)...)
	}

	return errors.Join(
		limitMemory1(at("memory"), spec.MemoryMiB<<20+sandboxdReserve),
		limitMemory1(at("memory", workName), spec.MemoryMiB<<20),
		limitSockets1(at("memory", sandboxdName)),
		limitSockets1(at("memory", workName)),
		write(at("pids", workName), "pids.max", strconv.Itoa(spec.PIDs)),
		write(at("cpu", workName), "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)),
		write(at("cpu", workName), "cpu.cfs_quota_us", strconv.Itoa(int(spec.CPU*cpuPeriod))),
		write(at("cpu"), "cpu.shares", share(spec, "2", "1024")),
	)
}

// share returns the sandbox's weight among its siblings: least if it is idle, else the kernel's default.
func share(spec driver.Spec, least, usual string) string {
	if spec.Idle {
		return least
	}

	return usual
}

// limitMemory1 limits memory, and memory plus swap if the kernel accounts for swap. The second limit must
// never be below the first. Swap adds no memory to a sandbox, but the kernel may swap out its memory.
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

// maxSockets bounds what TCP sockets hold in each part of a sandbox, in bytes.
const maxSockets = 64 << 20

// limitSockets1 bounds TCP sockets, which version 1 does not count as memory: without it one sandbox could
// take what the kernel has for those of the whole machine (tcp_mem).
func limitSockets1(at string) error {
	const file = "memory.kmem.tcp.limit_in_bytes"
	if !exists(filepath.Join(at, file)) {
		return nil
	}

	return write(at, file, strconv.Itoa(maxSockets))
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
