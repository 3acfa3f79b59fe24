package binary

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/agent/programs"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/filelock"
)

// Files of one version's folder.
const (
	File = "opencode"

	// NoModels; written last, so its presence marks a complete folder
	ModelsFile = "models.json"
)

// NoModels is an empty catalog of models, which OpenCode reads instead of downloading one.
func NoModels() []byte { return []byte("{}\n") }

// Fetch makes sure that AgentsDir has the verified, pinned binary, and returns its path. It downloads a
// missing binary with npm. Concurrent callers, also in other processes, wait for the first.
func (c *Cache) Fetch(ctx context.Context) (string, error) {
	rel, err := c.find()
	if err != nil {
		return "", err
	}

	programs.NoteUse(c.dir())

	if isVerified(c.dir(), rel.SHA256) {
		return c.Path(), nil
	}

	if err := makeReadable(filepath.Dir(c.dir())); err != nil {
		return "", fmt.Errorf("agents folder: %w", err)
	}

	lock, err := filelock.Wait(ctx, filepath.Join(filepath.Dir(c.dir()), programs.LockFile))
	if err != nil {
		return "", fault.Wrap(fault.Timeout, err, "fetch opencode")
	}
	// closing an unwritten file loses no data
	defer func() { _ = lock.Release() }()
	// another caller has fetched it meanwhile
	if isVerified(c.dir(), rel.SHA256) {
		return c.Path(), nil
	}

	if err := c.fill(ctx, rel); err != nil {
		return c.Path(), err
	}

	programs.NoteUse(c.dir())

	return c.Path(), nil
}

// fill completes the version's folder, with a binary that an operator put there or from npm.
func (c *Cache) fill(ctx context.Context, rel Release) error {
	if _, err := os.Stat(c.Path()); err == nil {
		return verify(c.dir(), rel)
	}

	c.dropUnfinished(ctx)

	tmp, err := os.MkdirTemp(filepath.Dir(c.dir()), unfinished)
	if err != nil {
		return fmt.Errorf("fetch opencode: %w", err)
	}
	// does nothing after the rename
	defer func() { _ = os.RemoveAll(tmp) }()

	c.log.InfoContext(ctx, "fetching opencode", "package", rel.Package, "version", rel.Version)

	if err := c.download(ctx, rel, tmp); err != nil {
		return err
	}

	if err := verify(tmp, rel); err != nil {
		return err
	}

	if err := makeReadable(tmp); err != nil {
		return fmt.Errorf("fetch opencode: %w", err)
	}
	// a folder without a binary
	if err := os.RemoveAll(c.dir()); err != nil {
		return fmt.Errorf("fetch opencode: %w", err)
	}

	return os.Rename(tmp, c.dir())
}

// unfinished is the pattern of folders that are being filled.
const unfinished = programs.Unfinished + "*"

// dropUnfinished removes the folders of processes that were killed during a download, about 250 MB each.
// The caller holds the lock, so no process uses them.
func (c *Cache) dropUnfinished(ctx context.Context) {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(c.dir()), unfinished))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	// an npm that outlived its parent may still write there; the next fetch removes the rest
	if err != nil {
		c.log.WarnContext(ctx, "unfinished downloads of opencode not removed", "error", err)
	}
}

// makeReadable creates a folder with mode 0755, regardless of the umask: sandboxes run as other users.
func makeReadable(dir string) error {
	return errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755))
}
