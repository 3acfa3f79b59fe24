package e2btest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroups are folders of this machine that are a sandbox's tree of cgroups, each with its path in the sandbox.
type cgroups [][2]string

// makeCgroups creates them in this machine's layout; none if it has no controllers.
func makeCgroups(id string) (cgroups, error) {
	name := "e2btest-" + id

	if control := filepath.Join(cgroupRoot, "cgroup.subtree_control"); exists(control) {
		if err := os.WriteFile(control, []byte("+memory +pids +cpu"), 0o600); err != nil {
			return nil, err
		}

		at := filepath.Join(cgroupRoot, name)

		return cgroups{{at, cgroupRoot}}, os.Mkdir(at, 0o755)
	}

	var all cgroups

	for _, controller := range []string{"memory", "pids", "cpu", "cpuacct"} {
		inside := filepath.Join(cgroupRoot, controller)
		if !exists(inside) {
			continue
		}

		at := filepath.Join(inside, name)
		// two controllers may share a tree
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, errors.Join(err, all.remove())
		}

		all = append(all, [2]string{at, inside})
	}

	return all, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// remove removes them when they are empty.
func (c cgroups) remove() error {
	var err error

	for _, at := range c {
		var folders []string
		// an error is a folder that is gone already
		_ = filepath.WalkDir(at[0], func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}

			return nil
		})
		for _, folder := range slices.Backward(folders) {
			err = errors.Join(err, rmdir(folder))
		}
	}

	return err
}

// rmdir waits for dead processes to leave.
func rmdir(folder string) error {
	for range 500 {
		if err := syscall.Rmdir(folder); err == nil || !errors.Is(err, syscall.EBUSY) {
			return err
		}

		time.Sleep(10 * time.Millisecond)
	}

	return &fs.PathError{Op: "rmdir", Path: folder, Err: syscall.EBUSY}
}
