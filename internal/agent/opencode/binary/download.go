package binary

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// download fetches the release with npm, which checks the registry's integrity hash, and unpacks the binary.
func (c *Cache) download(ctx context.Context, rel Release, dir string) error {
	spec := rel.Package + "@" + rel.Version
	cmd := exec.CommandContext(ctx, c.opts.NPM, "pack", spec, "--pack-destination", dir, "--ignore-scripts",
		"--loglevel", "error")
	cmd.Dir = dir
	// npm's children may hold the pipe
	cmd.WaitDelay = 5 * time.Second

	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fault.Wrap(fault.NotFound, err,
			"fetch opencode: npm is needed to download %s; install Node.js with npm, or put the binary at %s",
			spec, c.Path())
	}

	if err != nil {
		return fault.Wrap(
			fault.Unavailable,
			err,
			"fetch opencode: `npm pack %s` failed; is the npm registry reachable from here? "+
				"On a machine without it, put the binary at %s. npm said: %s",
			spec,
			c.Path(),
			tail(out, 1000),
		)
	}

	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packed) != 1 {
		return fault.New(fault.Internal, "fetch opencode: npm left %d packages instead of one in %s", len(packed), dir)
	}

	if err := unpack(packed[0], filepath.Join(dir, File)); err != nil {
		return fmt.Errorf("fetch opencode: unpack %s: %w", spec, err)
	}

	return os.Remove(packed[0])
}

// unpack writes the package's binary to path.
func unpack(archive, path string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	// read only
	defer func() { _ = f.Close() }()

	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}

	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("package/bin/opencode is not in it")
		}

		if err != nil {
			return err
		}

		if h.Name == "package/bin/opencode" && h.Typeflag == tar.TypeReg {
			return writeBinary(path, r)
		}
	}
}

func writeBinary(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}

	_, err = io.Copy(f, r)

	return errors.Join(err, f.Sync(), f.Close())
}

func tail(b []byte, n int) string {
	return string(b[max(0, len(b)-n):])
}
