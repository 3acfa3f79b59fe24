package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// parts returns the cgroups of a sandbox, the innermost first.
func parts(name string) [][]string {
	return [][]string{{name, workName}, {name, sandboxdName}, {name}}
}

// Kill kills every member. If the kernel kills a whole cgroup, no fork escapes.
func (h *Hierarchy) Kill(name string) error {
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

// Remove removes the cgroup, and kills its members until there are none.
func (h *Hierarchy) Remove(ctx context.Context, name string) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := h.removeOnce(name)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}

		if e := h.Kill(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
			return e
		}

		if e := clock.Sleep(ctx, pause); e != nil {
			return errors.Join(err, e)
		}
	}
}

func (h *Hierarchy) removeOnce(name string) error {
	for _, part := range parts(name) {
		for _, folder := range h.folders(part...) {
			if err := unix.Rmdir(folder); err != nil && !errors.Is(err, unix.ENOENT) {
				return &fs.PathError{Op: "rmdir", Path: folder, Err: err}
			}
		}
	}

	return nil
}
