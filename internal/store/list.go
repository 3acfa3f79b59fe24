package store

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"
)

// Blob is an entry of a list.
type Blob struct {
	Key  string
	Size int64

	// time of the last write
	At time.Time
}

// Blobs iterates over the blobs whose keys have the prefix, in the order of their keys. It ends after an error.
func (s *Store) Blobs(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	if s.folder != "" {
		return s.blobsHere(ctx, prefix)
	}

	return func(yield func(Blob, error) bool) {
		all := s.bucket.List(&blob.ListOptions{Prefix: prefix})
		for {
			o, err := all.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}

			if err != nil {
				yield(Blob{}, s.failed(ctx, err, "list", prefix))
				return
			}

			if !yield(Blob{Key: o.Key, Size: o.Size, At: o.ModTime}, nil) {
				return
			}
		}
	}
}

// blobsHere is Blobs of a store in a folder. Of such a list, gocloud.dev reads every file again for each page, fails
// while a writer renames its unfinished file, and leaves keys out at the end of a page.
func (s *Store) blobsHere(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		at, begin := path.Split(prefix)
		if _, err := s.walk(ctx, at, begin, func(b Blob) bool { return yield(b, nil) }); err != nil {
			yield(Blob{}, s.failed(ctx, err, "list", prefix))
		}
	}
}

// walk calls see for each blob below a folder whose key begins so, in the order of their keys, until see returns false.
// What is deleted meanwhile, or belongs to another user of the system, is left out.
func (s *Store) walk(ctx context.Context, folder, begin string, see func(Blob) bool) (more bool, err error) {
	entries, err := os.ReadDir(filepath.Join(s.folder, folder))
	if err = errors.Join(ctx.Err(), unlessGone(err)); err != nil {
		return false, err
	}

	// A key goes on with a slash after the name of a folder.
	name := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}

		return e.Name()
	}

	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(name(a), name(b)) })

	for _, e := range entries {
		key := folder + name(e)

		switch more = true; {
		case !strings.HasPrefix(e.Name(), begin):
		case e.IsDir():
			more, err = s.walk(ctx, key, "", see)
		case !unfinished.MatchString(key):
			more, err = seeFile(key, e, see)
		}

		if !more || err != nil {
			return more, err
		}
	}

	return true, nil
}

// seeFile calls see for a file that is still there.
func seeFile(key string, e fs.DirEntry, see func(Blob) bool) (more bool, err error) {
	info, err := e.Info()
	if err != nil {
		return true, unlessGone(err)
	}

	return see(Blob{Key: key, Size: info.Size(), At: info.ModTime()}), nil
}

// unlessGone is the error of a look at a file or folder, unless it is gone or not for this user.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}

	return err
}

// Keys iterates over the keys with the prefix, in order. It ends after an error.
func (s *Store) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for b, err := range s.Blobs(ctx, prefix) {
			if !yield(b.Key, err) {
				return
			}
		}
	}
}

// Folders iterates over the names of the folders whose keys begin with a prefix. It ends after an error.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if s.folder != "" {
		return s.foldersHere(ctx, prefix)
	}

	return func(yield func(string, error) bool) {
		all := s.bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"})
		for {
			o, err := all.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}

			if err != nil {
				yield("", s.failed(ctx, err, "list", prefix))
				return
			}

			if o.IsDir && !yield(path.Base(o.Key), nil) {
				return
			}
		}
	}
}

// foldersHere is Folders of a store in a folder, of which gocloud.dev reads every file again for each page.
func (s *Store) foldersHere(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		at, begin := path.Split(prefix)
		at = filepath.Join(s.folder, at)

		entries, err := os.ReadDir(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield("", s.failed(ctx, err, "list", prefix))
			return
		}

		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				yield("", s.failed(ctx, err, "list", prefix))
				return
			}

			if !e.IsDir() || !strings.HasPrefix(e.Name(), begin) || !holdsFile(filepath.Join(at, e.Name())) {
				continue
			}

			if !yield(e.Name(), nil) {
				return
			}
		}
	}
}

// holdsFile reports whether a folder, or one below it, has a file. Those of deleted blobs are left without one.
func holdsFile(folder string) bool {
	// what is deleted meanwhile is no file
	entries, _ := os.ReadDir(folder)

	isFile := func(e fs.DirEntry) bool { return !e.IsDir() }
	isFull := func(e fs.DirEntry) bool { return e.IsDir() && holdsFile(filepath.Join(folder, e.Name())) }

	return slices.ContainsFunc(entries, isFile) || slices.ContainsFunc(entries, isFull)
}
