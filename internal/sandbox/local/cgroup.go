package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// parentCgroup holds the cgroups of all sandboxes, in every hierarchy.
const parentCgroup = "rolloutd"

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
	for _, parent := range h.folders("") {
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

// folders lists the cgroup's folder in each hierarchy, the controllers' first.
func (h *hierarchy) folders(name string) []string {
	var list []string
	for _, c := range []string{"memory", "pids", "cpu", "cpuacct"} {
		if at, ok := h.v1[c]; ok {
			list = append(list, filepath.Join(at, parentCgroup, name))
		}
	}
	if h.root != "" {
		list = append(list, filepath.Join(h.root, parentCgroup, name))
	}
	return list
}

// create makes the cgroup with its limits, and returns the files through which a process enters it.
func (h *hierarchy) create(name string, spec driver.Spec) (procs []string, err error) {
	for _, folder := range h.folders(name) {
		if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		procs = append(procs, filepath.Join(folder, "cgroup.procs"))
	}
	if h.version == 2 {
		return procs, h.limit2(name, spec)
	}
	return procs, h.limit1(name, spec)
}

const cpuPeriod = 100_000 // µs

func (h *hierarchy) limit1(name string, spec driver.Spec) error {
	at := func(controller string) string { return filepath.Join(h.v1[controller], parentCgroup, name) }
	memory := strconv.Itoa(spec.MemoryMiB << 20)
	err := errors.Join(
		write(at("memory"), "memory.limit_in_bytes", memory),
		write(at("pids"), "pids.max", strconv.Itoa(spec.PIDs)),
		write(at("cpu"), "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)),
		write(at("cpu"), "cpu.cfs_quota_us", strconv.Itoa(int(spec.CPU*cpuPeriod))),
	)
	// Only kernels that account for swap have it.
	if swap := "memory.memsw.limit_in_bytes"; exists(filepath.Join(at("memory"), swap)) {
		err = errors.Join(err, write(at("memory"), swap, memory))
	}
	return err
}

func (h *hierarchy) limit2(name string, spec driver.Spec) error {
	at := filepath.Join(h.root, parentCgroup, name)
	err := errors.Join(
		write(at, "memory.max", strconv.Itoa(spec.MemoryMiB<<20)),
		write(at, "pids.max", strconv.Itoa(spec.PIDs)),
		write(at, "cpu.max", fmt.Sprintf("%d %d", int(spec.CPU*cpuPeriod), cpuPeriod)),
	)
	if swap := "memory.swap.max"; exists(filepath.Join(at, swap)) {
		err = errors.Join(err, write(at, swap, "0"))
	}
	return err
}

// kill kills every member.
func (h *hierarchy) kill(name string) error {
	for _, folder := range h.folders(name) {
		if exists(filepath.Join(folder, "cgroup.kill")) {
			return write(folder, "cgroup.kill", "1")
		}
	}
	for _, folder := range h.folders(name) {
		for _, pid := range members(folder) {
			_ = unix.Kill(pid, unix.SIGKILL)
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
	for _, folder := range h.folders(name) {
		if err := unix.Rmdir(folder); err != nil && !errors.Is(err, unix.ENOENT) {
			return &fs.PathError{Op: "rmdir", Path: folder, Err: err}
		}
	}
	return nil
}

func write(folder, file, value string) error {
	return os.WriteFile(filepath.Join(folder, file), []byte(value), 0o600)
}
