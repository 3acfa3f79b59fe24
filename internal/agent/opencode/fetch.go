package opencode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/filelock"
)

// Files of one version's folder.
const (
	binaryFile   = "opencode"
	modelsFile   = "models.json" // an empty catalogue; written last, so its presence marks a complete folder
	verifiedFile = ".verified"
)

// dir is the version's folder on this host.
func (a *Agent) dir() string { return filepath.Join(a.opts.AgentsDir, "opencode", a.opts.Version) }

// Fetch makes sure that AgentsDir has the verified, pinned binary, and returns its path. It downloads a missing binary with npm. Concurrent
// callers, also in other processes, wait for the first.
func (a *Agent) Fetch(ctx context.Context) (string, error) {
	rel, err := a.find(a.opts.Version, a.opts.Platform)
	if err != nil {
		return "", err
	}
	path := filepath.Join(a.dir(), binaryFile)
	if remembered(a.dir(), rel.sha256) {
		return path, nil
	}
	if err := makeReadable(filepath.Dir(a.dir())); err != nil {
		return "", fmt.Errorf("agents folder: %w", err)
	}
	lock, err := filelock.Wait(ctx, filepath.Join(filepath.Dir(a.dir()), ".lock"))
	if err != nil {
		return "", fault.Wrap(fault.Timeout, err, "fetch opencode")
	}
	defer func() { _ = lock.Release() }() // closing an unwritten file loses no data
	if remembered(a.dir(), rel.sha256) {  // another caller has fetched it meanwhile
		return path, nil
	}
	return path, a.fill(ctx, rel)
}

// fill completes the version's folder, with a binary that an operator put there or from npm.
func (a *Agent) fill(ctx context.Context, rel release) error {
	if _, err := os.Stat(filepath.Join(a.dir(), binaryFile)); err == nil {
		return verify(a.dir(), rel)
	}
	a.dropUnfinished(ctx)
	tmp, err := os.MkdirTemp(filepath.Dir(a.dir()), unfinished)
	if err != nil {
		return fmt.Errorf("fetch opencode: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // does nothing after the rename
	a.log.InfoContext(ctx, "fetching opencode", "package", rel.npmPackage, "version", rel.version)
	if err := a.download(ctx, rel, tmp); err != nil {
		return err
	}
	if err := verify(tmp, rel); err != nil {
		return err
	}
	if err := makeReadable(tmp); err != nil {
		return fmt.Errorf("fetch opencode: %w", err)
	}
	if err := os.RemoveAll(a.dir()); err != nil { // a folder without a binary
		return fmt.Errorf("fetch opencode: %w", err)
	}
	return os.Rename(tmp, a.dir())
}

// unfinished is the pattern of folders that are being filled.
const unfinished = ".fetch-*"

// dropUnfinished removes the folders of processes that were killed during a download, about 250 MB each. The caller holds the lock, so no
// process uses them.
func (a *Agent) dropUnfinished(ctx context.Context) {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(a.dir()), unfinished))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil { // an npm that outlived its parent may still write there; the next fetch removes the rest
		a.log.WarnContext(ctx, "unfinished downloads of opencode not removed", "error", err)
	}
}

// makeReadable creates a folder with mode 0755, regardless of the umask: sandboxes run as other users.
func makeReadable(dir string) error {
	return errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755))
}
