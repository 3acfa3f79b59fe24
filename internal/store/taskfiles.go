package store

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// PutArchive stores the files of a task as one archive under its digest, unless it is there and was written today. All
// rollouts of a group, and all attempts, share it. blobs are further files: keys by path in the archive. It streams them.
func (s *Store) PutArchive(ctx context.Context, files, blobs map[string]string) (rollout.Ref, error) {
	write := func(w io.Writer) error {
		archive := tar.NewWriter(w)
		if err := writeTexts(archive, files); err != nil {
			return err
		}

		for _, name := range slices.Sorted(maps.Keys(blobs)) {
			if err := s.writeBlob(ctx, archive, name, blobs[name]); err != nil {
				return err
			}
		}

		return archive.Close()
	}
	sum := sha256.New()

	size := &counter{}
	if err := write(io.MultiWriter(sum, size)); err != nil {
		return rollout.Ref{}, err
	}

	digest := hex.EncodeToString(sum.Sum(nil))

	ref := rollout.Ref{Key: rollout.TaskFilesKey(digest), Digest: "sha256:" + digest, Size: size.n}
	if there, err := s.inUse(ctx, ref.Key); err != nil || there {
		return ref, err
	}

	r := piped(write)
	defer r.Close()

	return s.Put(ctx, ref.Key, r)
}

// ArchiveOf streams the files of a task as a tar below rollout.Home. Close ends it early.
func ArchiveOf(files map[string]string) io.ReadCloser {
	return piped(func(w io.Writer) error {
		archive := tar.NewWriter(w)
		return errors.Join(writeTexts(archive, files), archive.Close())
	})
}

// piped returns a reader of what write writes.
func piped(write func(io.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	// ends when r is read to its end or closed
	go func() { w.CloseWithError(write(w)) }()

	return r
}

// writeTexts writes files into a tar below rollout.Home. Equal files result in equal bytes.
func writeTexts(archive *tar.Writer, files map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		full, err := rollout.FilePath(name)
		if err != nil {
			return err
		}

		content := files[name]
		if err := archive.WriteHeader(
			header(strings.TrimPrefix(full, rollout.Home+"/"), content, int64(len(content))),
		); err != nil {
			return err
		}

		if _, err := io.WriteString(archive, content); err != nil {
			return err
		}
	}

	return nil
}

// writeBlob copies a blob into a tar.
func (s *Store) writeBlob(ctx context.Context, archive *tar.Writer, name, key string) error {
	about, err := s.attributes(ctx, key)
	if err != nil {
		return err
	}

	r, err := s.Reader(ctx, key)
	if err != nil {
		return err
	}
	defer r.Close()

	content := bufio.NewReader(r)

	head, err := content.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return classify(err, "read", key)
	}

	if err := archive.WriteHeader(header(name, string(head), about.Size)); err != nil {
		return err
	}

	_, err = io.Copy(archive, content)

	return classify(err, "read", key)
}

// header returns the header of a file whose content begins so.
func header(name, content string, size int64) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: modeOf(content), Size: size,
		ModTime: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), // any constant that zip supports
	}
}

// modeOf makes scripts and programs executable.
func modeOf(content string) int64 {
	if strings.HasPrefix(content, "#!") || strings.HasPrefix(content, "\x7fELF") {
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

// renewAfter is the age at which what rollouts use is written anew, so that what is old is not used.
const renewAfter = 24 * time.Hour

// inUse reports whether a blob of the store is so young that it need not be written anew.
func (s *Store) inUse(ctx context.Context, key string) (bool, error) {
	about, err := s.attributes(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}

	return err == nil && time.Since(about.ModTime) < renewAfter, err
}

// Renew writes a blob that is older than a day anew: a rollout uses it. One that does not exist is a fault.NotFound.
func (s *Store) Renew(ctx context.Context, key string) error {
	about, err := s.attributes(ctx, key)
	if err != nil || time.Since(about.ModTime) < renewAfter {
		return err
	}

	r, err := s.Reader(ctx, key)
	if err != nil {
		return err
	}
	defer r.Close()

	_, err = s.Put(ctx, key, r)

	return err
}

// ErrNotText is the error of Texts for an archive that has more than a few texts.
var ErrNotText = errors.New("the archive has a file that is no text, or is too large")

// headerSize is that of a file's header in an archive, in bytes.
const headerSize = 512

// Texts reads an archive of PutArchive back: its files by their absolute paths. It is ErrNotText if they have more than
// most bytes with their headers, or one is not UTF-8.
func (s *Store) Texts(ctx context.Context, archive rollout.Ref, most int64) (map[string]string, error) {
	r, err := s.Reader(ctx, archive.Key)
	if err != nil {
		return nil, err
	}
	defer r.Close()

	in := tar.NewReader(r)
	texts := map[string]string{}

	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}

		if err != nil {
			return nil, classify(err, "read", archive.Key)
		}

		if h.Size > most {
			return nil, ErrNotText
		}

		content, err := io.ReadAll(in)
		if err != nil {
			return nil, classify(err, "read", archive.Key)
		}

		if most -= headerSize + int64(len(content)); most < 0 || !utf8.Valid(content) {
			return nil, ErrNotText
		}

		texts[rollout.Home+"/"+h.Name] = string(content)
	}
}
