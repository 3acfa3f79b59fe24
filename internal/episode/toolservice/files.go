package toolservice

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Files reads the files of a sandbox; *sandbox.Sandbox documents the method.
type Files interface {
	GetTar(ctx context.Context, path string) (io.ReadCloser, error)
}

// maxEntries bounds a list.
const maxEntries = 100_000

// inWorkdir is the absolute path of one that is relative to the workdir.
func inWorkdir(p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}

	return path.Join(rollout.Workdir, p)
}

// list lists a folder by its tar.
func list(
	ctx context.Context,
	files Files,
	folder string,
	recursive bool,
	limit int,
) (entries []episode.Entry, more bool, err error) {
	if limit <= 0 || limit > maxEntries {
		limit = maxEntries
	}

	stream, err := files.GetTar(ctx, inWorkdir(folder))
	if err != nil {
		return nil, false, err
	}
	defer stream.Close()

	entries = []episode.Entry{}

	for archive := tar.NewReader(stream); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return entries, false, nil
		}

		if err != nil {
			return nil, false, fault.Wrap(fault.Unavailable, err, "list %s", folder)
		}

		name := strings.Trim(path.Clean("/"+h.Name), "/")
		if name == "" || !recursive && strings.Contains(name, "/") {
			continue
		}

		if len(entries) == limit {
			return entries, true, nil
		}

		entries = append(entries, episode.Entry{
			Path: name, IsDir: h.Typeflag == tar.TypeDir, Size: h.Size, MTime: float64(h.ModTime.UnixNano()) / 1e9,
		})
	}
}
