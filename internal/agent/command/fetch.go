package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/agent/programs"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/filelock"
)

// completeFile is written last into an agent's folder. Its presence marks a complete folder.
const completeFile = programs.CompleteFile

// source describes the origin of the folder, for people and for the folder's name.
func (a *Agent) source() string {
	if a.Folder != "" {
		return "folder " + a.Folder
	}

	return "package " + a.Package
}

// folder is the agent's folder below AgentsDir. It differs by version and integrity.
func (a *Agent) folder() string {
	sum := sha256.Sum256([]byte(a.source() + "\n" + a.integrity()))
	return a.Name + "/" + hex.EncodeToString(sum[:8])
}

// Program returns the name of the folder below AgentsDir, AGENT/VERSION; "": the agent installs none.
func (a *Agent) Program() string {
	if !a.installs() {
		return ""
	}

	return a.folder()
}

func (a *Agent) integrity() string {
	return cmp.Or(a.Integrity[platform(a.o.Arch)], a.Integrity["any"])
}

// Fetch makes sure that the agent's folder is on this host, and returns its path. Concurrent callers, also
// in other processes, wait for the first.
func (a *Agent) Fetch(ctx context.Context) (string, error) {
	dir := filepath.Join(a.o.AgentsDir, filepath.FromSlash(a.folder()))
	programs.NoteUse(dir)

	if isComplete(dir) {
		return dir, nil
	}

	parent := filepath.Dir(dir)
	// regardless of the umask
	if err := errors.Join(os.MkdirAll(parent, 0o755), os.Chmod(parent, 0o755)); err != nil {
		return "", fmt.Errorf("agents folder: %w", err)
	}

	lock, err := filelock.Wait(ctx, filepath.Join(parent, programs.LockFile))
	if err != nil {
		return "", fault.Wrap(fault.Timeout, err, "fetch %s", a.Name)
	}
	// closing an unwritten file loses no data
	defer func() { _ = lock.Release() }()
	// another process was first
	if isComplete(dir) {
		return dir, nil
	}

	if err := a.fill(ctx, dir); err != nil {
		return "", fault.Wrap(fault.KindOf(err), err, "fetch %s", a.Name)
	}

	programs.NoteUse(dir)

	return dir, nil
}

// CheckFolder returns an error if the agent's folder is neither a folder of this host nor copied.
func (a *Agent) CheckFolder() error {
	if a.Folder == "" || isComplete(filepath.Join(a.o.AgentsDir, filepath.FromSlash(a.folder()))) {
		return nil
	}

	info, err := os.Stat(a.Folder)
	if err == nil && !info.IsDir() {
		err = fault.New(fault.Invalid, "%s is a file", a.Folder)
	}

	if err != nil {
		return fmt.Errorf("agent %q: %w", a.Name, fault.Field("folder", "must be a folder of this host: %v", err))
	}

	return nil
}

func isComplete(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, completeFile))
	return err == nil
}

// fill makes the folder under a temporary name and renames it to dir. The caller holds the lock.
func (a *Agent) fill(ctx context.Context, dir string) error {
	// the folders of processes that were killed
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), programs.Unfinished+"*"))
	if err != nil {
		return err
	}

	for _, old := range append(left, dir) {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}

	tmp, err := os.MkdirTemp(filepath.Dir(dir), programs.Unfinished)
	if err != nil {
		return err
	}
	// does nothing after the rename
	defer func() { _ = os.RemoveAll(tmp) }()

	a.o.Logger.InfoContext(ctx, "fetching an agent", "agent", a.Name, "from", a.source())

	if a.Folder != "" {
		err = os.CopyFS(tmp, os.DirFS(a.Folder))
	} else {
		err = a.npmInstall(ctx, tmp)
	}

	if err != nil {
		return err
	}

	if err := makeReadable(tmp); err != nil {
		return err
	}

	if err := os.WriteFile(filepath.Join(tmp, completeFile), []byte("{}\n"), 0o644); err != nil {
		return err
	}

	if err := os.Chmod(filepath.Join(tmp, completeFile), 0o644); err != nil {
		return err
	}

	return os.Rename(tmp, dir)
}
