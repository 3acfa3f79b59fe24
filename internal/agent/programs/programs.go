// Package programs says which programs of agents a host keeps, and removes those that no rollout can use any more. They
// are folders AGENT/VERSION below the host's folder of agents, whose packages install them.
package programs

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/filelock"
)

const (
	// LockFile is the file of an agent's folder that is locked while a program is installed or removed.
	LockFile = ".lock"

	// Unfinished begins the names of folders that are being filled or removed. Those of killed processes are removed
	// before the next installation.
	Unfinished = ".fetch-"

	// CompleteFile or VerifiedFile is written last into a program's folder, as its package has it. A folder without one is
	// not ours.
	CompleteFile = ".complete"
	VerifiedFile = ".verified"

	// usedFile of a program has the time of its last use.
	usedFile = ".used"
)

// NoteUse notes that a rollout begins with the program in dir. A folder that cannot be written keeps its programs, so there is
// no error.
func NoteUse(dir string) {
	path, now := filepath.Join(dir, usedFile), time.Now()
	if err := os.Chtimes(path, now, now); errors.Is(err, fs.ErrNotExist) {
		_ = os.WriteFile(path, nil, 0o644)
	}
}

// Program is an installed version of an agent.
type Program struct {
	// AGENT/VERSION
	Name string

	Bytes  int64
	UsedAt time.Time
}

// Folder is a host's folder of agents. Several hosts of a machine may share it.
type Folder struct {
	Dir string

	// Needed are the programs that this build and its configuration install, AGENT/VERSION.
	Needed []string

	// MaxAge is the time since its last use after which no rollout can use a program.
	MaxAge time.Duration

	Logger *slog.Logger
}

// Surplus returns the programs that Collect removes, by their names: those that are not needed and that no rollout began
// with for MaxAge. A program without a noted use is none.
func (f Folder) Surplus(now time.Time) ([]Program, error) {
	all, err := f.installed()
	if err != nil {
		return nil, err
	}

	var surplus []Program

	for _, name := range all {
		at, err := f.usedAt(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}

		if err != nil || slices.Contains(f.Needed, name) || now.Sub(at) <= f.MaxAge {
			continue
		}

		surplus = append(surplus, Program{Name: name, Bytes: size(f.path(name)), UsedAt: at})
	}

	return surplus, nil
}

// Collect removes the surplus programs and returns them. The time of a program of an earlier build, which noted no uses,
// begins with the first call.
func (f Folder) Collect(ctx context.Context, now time.Time) (removed []Program, err error) {
	all, err := f.installed()
	if err != nil {
		return nil, err
	}

	for _, name := range all {
		if _, err := f.usedAt(name); errors.Is(err, fs.ErrNotExist) {
			NoteUse(f.path(name))
		}
	}

	surplus, err := f.Surplus(now)

	for _, p := range surplus {
		done, failed := f.remove(p)
		if err = errors.Join(err, failed); done {
			f.Logger.InfoContext(
				ctx, "removed a program of an agent", "program", p.Name, "bytes", p.Bytes, "last used", p.UsedAt,
			)

			removed = append(removed, p)
		}
	}

	return removed, err
}

// remove removes a program unless another process installs one of its agent, or a rollout began with it meanwhile.
func (f Folder) remove(p Program) (bool, error) {
	dir := f.path(p.Name)

	lock, err := filelock.Acquire(filepath.Join(filepath.Dir(dir), LockFile))
	if held := new(filelock.HeldError); errors.As(err, &held) {
		return false, nil
	}

	if err != nil {
		return false, err
	}
	// closing an unwritten file loses no data
	defer func() { _ = lock.Release() }()

	if at, err := f.usedAt(p.Name); err != nil || at.After(p.UsedAt) {
		return false, nil //nolint:nilerr // removed meanwhile
	}

	// Renamed first, so that a crash leaves no partial program under its name.
	gone := filepath.Join(filepath.Dir(dir), Unfinished+filepath.Base(dir))
	if err := os.Rename(dir, gone); err != nil {
		return false, err
	}

	return true, os.RemoveAll(gone)
}

// installed returns the names of the installed programs. A folder that does not exist has none.
func (f Folder) installed() (names []string, err error) {
	agents, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	for _, a := range agents {
		if !a.IsDir() {
			continue
		}

		versions, err := os.ReadDir(filepath.Join(f.Dir, a.Name()))
		if err != nil {
			return nil, err
		}

		for _, v := range versions {
			name := a.Name() + "/" + v.Name()
			if !strings.HasPrefix(v.Name(), ".") && f.complete(name) {
				names = append(names, name)
			}
		}
	}

	return names, nil
}

// complete reports whether a name is that of a program that was installed.
func (f Folder) complete(name string) bool {
	for _, file := range []string{CompleteFile, VerifiedFile} {
		if _, err := os.Stat(filepath.Join(f.path(name), file)); err == nil {
			return true
		}
	}

	return false
}

func (f Folder) usedAt(name string) (time.Time, error) {
	info, err := os.Stat(filepath.Join(f.path(name), usedFile))
	if err != nil {
		return time.Time{}, err
	}

	return info.ModTime(), nil
}

func (f Folder) path(name string) string { return filepath.Join(f.Dir, filepath.FromSlash(name)) }

// size sums the files of a program. What cannot be read is left out.
func size(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // what can be read is summed
		}

		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}

		return nil
	})

	return sum
}
