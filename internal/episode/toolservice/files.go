package toolservice

import (
	"archive/tar"
	"context"
	"io"
	"path"

	"github.com/rolloutd/rolloutd/internal/episode"
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

// list lists a folder, or a file, with names relative to the workdir. Links are listed as what they lead to;
// those that lead out of the workdir are left out.
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

	entries = []episode.Entry{}
	t, first := tree{files: files}, true

	err = t.walk(ctx, folder, recursive, func(h *tar.Header, _ io.Reader) error {
		itself := first && h.Typeflag == tar.TypeDir
		first = false

		switch {
		case itself:
			return nil
		case len(entries) == limit:
			more = true
			return errEnough
		}

		entries = append(entries, episode.Entry{
			Path:  path.Clean(h.Name),
			IsDir: h.Typeflag == tar.TypeDir,
			Size:  h.Size,
			MTime: float64(h.ModTime.UnixNano()) / 1e9,
		})

		return nil
	})

	return entries, more, err
}

// copyTar writes a folder, or a file, with names relative to it.
func copyTar(ctx context.Context, files Files, at string, w io.Writer) error {
	stream, err := files.GetTar(ctx, inWorkdir(at))
	if err != nil {
		return err
	}
	defer stream.Close()

	_, err = io.Copy(w, stream)

	return err
}

// pack writes a folder, or a file, as a tar with names relative to the workdir.
func pack(ctx context.Context, files Files, at string, w io.Writer) error {
	out := tar.NewWriter(w)
	t := tree{files: files, keepLinks: true}

	err := t.walk(ctx, at, true, func(h *tar.Header, content io.Reader) error {
		if err := out.WriteHeader(h); err != nil || content == nil {
			return err
		}

		_, err := io.CopyN(out, content, h.Size)

		return err
	})
	if err != nil {
		return err
	}

	return out.Close()
}
