package store

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// PutFiles stores the files of a task as one archive under its digest, unless it is there already: the rollouts of a group, and all
// attempts, share it.
func (s *Store) PutFiles(ctx context.Context, files map[string]string) (rollout.Ref, error) {
	sum := sha256.New()
	size := &counter{}
	if err := WriteFiles(io.MultiWriter(sum, size), files); err != nil {
		return rollout.Ref{}, err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	ref := rollout.Ref{Key: rollout.TaskFilesKey(digest), Digest: "sha256:" + digest, Size: size.n}
	if there, err := s.Exists(ctx, ref.Key); err != nil || there {
		return ref, err
	}
	r := ArchiveOf(files)
	defer r.Close()
	return s.Put(ctx, ref.Key, r)
}

// ArchiveOf streams the files of a task as a tar below rollout.Home. Close ends it early.
func ArchiveOf(files map[string]string) io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(WriteFiles(w, files)) }() // ends when r is read to its end, or closed
	return r
}

// WriteFiles writes the files of a task as a tar below rollout.Home. Equal files make equal bytes.
func WriteFiles(w io.Writer, files map[string]string) error {
	archive := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		full, err := rollout.FilePath(name)
		if err != nil {
			return err
		}
		content := files[name]
		err = archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(full, rollout.Home+"/"), Mode: modeOf(content), Size: int64(len(content)),
			ModTime: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), // any constant that zip can hold
		})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(archive, content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// modeOf makes scripts executable.
func modeOf(content string) int64 {
	if strings.HasPrefix(content, "#!") {
		return 0o755
	}
	return 0o644
}

// counter counts the bytes that are written to it.
type counter struct{ n int64 }

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
