package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// parentCgroup holds the cgroups of all sandboxes, in every hierarchy. That of a sandbox holds two: sandboxd is in one and its
// processes are in the other, which alone has the sandbox's limits. So no process can take memory, time or process numbers from
// sandboxd.
const (
	parentCgroup   = "rolloutd"
	sandboxdCgroup = "sandboxd"
	workCgroup     = "work"
)

// sandboxdReserve is memory of the whole sandbox beyond that of its processes, in bytes. Files that sandboxd writes count here too:
// what they take past the reserve is missing to the processes.
const sandboxdReserve = 256 << 20

// hierarchy is how this machine mounts its cgroups: version 2, version 1 with a folder per controller, or both.
type hierarchy struct {
	version int    // of the controllers: 0 where there are none
	root    string // of version 2's tree; "": none
	v1      map[string]string
}

func newHierarchy(root string) *hierarchy {
	if exists(filepath.Join(root, "cgroup.controllers")) {
		return &hierarchy{version: 2, root: root}
	}
	h := &hierarchy{v1: map[string]string{}}
	for _, c := range []string{"memory", "pids", "cpu", "cpuacct"} {
		if exists(filepath.Join(root, c, "cgroup.procs")) {
			h.v1[c] = filepath.Join(root, c)
		}
	}
	if len(h.v1) == 4 {
		h.version = 1
	}
	// Even without controllers a version 2 tree is worth having: it kills all members at once.
	if unified := filepath.Join(root, "unified"); exists(filepath.Join(unified, "cgroup.procs")) {
		h.root = unified
	}
	return h
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// prepare makes the parents.
func (h *hierarchy) prepare() error {
	if h.version == 0 {
		return errors.New("the controllers memory, pids and cpu are not all there")
	}
	for _, parent := range h.folders() {
		if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if h.version == 1 {
		return nil
	}
	for _, at := range []string{h.root, filepath.Join(h.root, parentCgroup)} {
		if err := write(at, "cgroup.subtree_control", "+memory +pids +cpu"); err != nil {
			return fmt.Errorf("delegate controllers: %w", err)
		}
	}
	return nil
}

// folders lists the cgroup's folder in each hierarchy, the controllers' first. With no name it is that of the parents.
func (h *hierarchy) folders(name ...string) []string {
	below := filepath.Join(append([]string{parentCgroup}, name...)...)
	var list []string
	for _, c := range []string{"memory", "pids", "cpu", "cpuacct"} {
		if at, ok := h.v1[c]; ok {
			list = append(list, filepath.Join(at, below))
		}
	}
	if h.root != "" {
		list = append(list, filepath.Join(h.root, below))
	}
	return list
}

// entrances are the ways into the cgroups of a sandbox: sandboxd's, and those of its processes.
//
// A write to cgroup.procs takes a lock of the whole kernel, for which it waits some 10 ms. Two ways need no such lock: a thread
// writes "0" to the tasks file of version 1, which moves it alone, and a fork places the child into a version 2 folder.
type entrances struct {
	folder   string   // of version 2, which sandboxd is forked into; "": none
	sandboxd []string // files to which the stage writes "0"
	work     []string // the same for a started process
}

// create makes the cgroups of a sandbox with their limits.
func (h *hierarchy) create(name string, spec driver.Spec) (entrances, error) {
	e := h.entrances(name)
	for _, names := range [][]string{{name}, {name, sandboxdCgroup}, {name, workCgroup}} {
		for _, folder := range h.folders(names...) {
			if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return e, err
			}
		}
		if len(names) == 1 && h.version == 2 {
			if err := write(filepath.Join(h.root, parentCgroup, name), "cgroup.subtree_control", "+memory +pids +cpu"); err != nil {
				return e, fmt.Errorf("delegate controllers: %w", err)
			}
		}
	}
	return e, h.limit(name, spec)
}

func (h *hierarchy) entrances(name string) entrances {
	var e entrances
	if h.root != "" {
		e.folder = filepath.Join(h.root, parentCgroup, name, sandboxdCgroup)
	}
	if h.version == 2 {
		e.work = []string{filepath.Join(h.root, parentCgroup, name, workCgroup, "cgroup.procs")}
		return e
	}
	// A version 2 tree beside version 1 has no limits: the processes stay where sandboxd is.
	for _, controller := range slices.Sorted(maps.Keys(h.v1)) {
		at := h.v1[controller]
		e.sandboxd = append(e.sandboxd, filepath.Join(at, parentCgroup, name, sandboxdCgroup, "tasks"))
		e.work = append(e.work, filepath.Join(at, parentCgroup, name, workCgroup, "tasks"))
	}
	return e
}

// limit sets the limits of a sandbox's cgroups, new ones or those of a living sandbox.
func (h *hierarchy) limit(name string, spec driver.Spec) error {
	if h.version == 2 {
		return h.limit2(name, spec)
	}
	return h.limit1(name, spec)
}

const cpuPeriod = 100_000 // µs

func (h *hierarchy) limit1(name string, spec driver.Spec) error {
	at := func(controller string, below ...string) string {
		return filepath.Join(append([]string{h.v1[controller], parentCgroup, name}, below...)...)
	}
	return errors.Join(
		limitMemory1(at("memory"), spec.MemoryMiB<<20+sandboxdReserve),
		limitMemory1(at("memory", workCgroup), spec.MemoryMiB<<20),
		write(at("pids", workCgroup), "pids.max", strconv.Itoa(spec.PIDs)),
		write(at("cpu", workCgroup), "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)),
		write(at("cpu", workCgroup), "cpu.cfs_quota_us", strconv.Itoa(int(spec.CPU*cpuPeriod))),
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

// limitMemory1 limits memory, and memory with swap where the kernel accounts for swap. The second must never be below the first.
func limitMemory1(at string, bytes int) error {
	files := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	if !exists(filepath.Join(at, files[1])) {
		files = files[:1]
	} else if int64(bytes) > keyed(at, files[1], "") {
		slices.Reverse(files)
	}
	for _, file := range files {
		if err := write(at, file, strconv.Itoa(bytes)); err != nil {
			return err
		}
	}
	return nil
}

func (h *hierarchy) limit2(name string, spec driver.Spec) error {
	at := filepath.Join(h.root, parentCgroup, name)
	work := filepath.Join(at, workCgroup)
	err := errors.Join(
		write(at, "memory.max", strconv.Itoa(spec.MemoryMiB<<20+sandboxdReserve)),
		write(work, "memory.max", strconv.Itoa(spec.MemoryMiB<<20)),
		write(work, "pids.max", strconv.Itoa(spec.PIDs)),
		write(work, "cpu.max", fmt.Sprintf("%d %d", int(spec.CPU*cpuPeriod), cpuPeriod)),
		write(at, "cpu.weight", share(spec, "1", "100")),
	)
	if swap := "memory.swap.max"; exists(filepath.Join(at, swap)) {
		err = errors.Join(err, write(at, swap, "0"))
	}
	return err
}

// parts are the cgroups of a sandbox, the innermost first.
func parts(name string) [][]string {
	return [][]string{{name, workCgroup}, {name, sandboxdCgroup}, {name}}
}

// kill kills every member. Where the kernel kills a whole cgroup, no fork escapes.
func (h *hierarchy) kill(name string) error {
	for _, folder := range h.folders(name) {
		if exists(filepath.Join(folder, "cgroup.kill")) {
			return write(folder, "cgroup.kill", "1")
		}
	}
	for _, part := range parts(name) {
		for _, folder := range h.folders(part...) {
			for _, pid := range members(folder) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
	return nil
}

func members(folder string) []int {
	data, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	var pids []int
	for _, f := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// remove removes the cgroup, killing what is in it for as long as there is anything.
func (h *hierarchy) remove(ctx context.Context, name string) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := h.removeOnce(name)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		if e := h.kill(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
			return e
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(pause):
		}
	}
}

func (h *hierarchy) removeOnce(name string) error {
	for _, part := range parts(name) {
		for _, folder := range h.folders(part...) {
			if err := unix.Rmdir(folder); err != nil && !errors.Is(err, unix.ENOENT) {
				return &fs.PathError{Op: "rmdir", Path: folder, Err: err}
			}
		}
	}
	return nil
}

func write(folder, file, value string) error {
	return os.WriteFile(filepath.Join(folder, file), []byte(value), 0o600)
}
