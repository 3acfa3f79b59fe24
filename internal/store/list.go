package store

import (
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
	"gocloud.dev/gcerrors"
)

// Blob is an entry of a list.
type Blob struct {
	Key  string
	Size int64

	// of the last write
	At time.Time
}

const (
	// pageSize is the number of blobs that one request lists.
	pageSize = 1000

	// maxListTries bounds how often a page of a folder is listed because of its writers.
	maxListTries = 100
)

// Blobs iterates over the blobs whose keys have the prefix, in the order of their keys. It ends after an error.
func (s *Store) Blobs(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		for token := blob.FirstPageToken; len(token) > 0; {
			page, next, err := s.listPage(ctx, prefix, token)
			if err != nil {
				yield(Blob{}, s.failed(ctx, err, "list", prefix))
				return
			}

			for _, o := range page {
				if !unfinished.MatchString(o.Key) && !yield(Blob{Key: o.Key, Size: o.Size, At: o.ModTime}, nil) {
					return
				}
			}

			token = next
		}
	}
}

// listPage lists one page. A folder's page fails while a writer renames its unfinished file, and is listed again.
func (s *Store) listPage(ctx context.Context, prefix string, token []byte) (page []*blob.ListObject, next []byte, err error) {
	for range maxListTries {
		page, next, err = s.bucket.ListPage(ctx, token, pageSize, &blob.ListOptions{Prefix: prefix})
		if err == nil || s.folder == "" || codeOf(err) != gcerrors.NotFound {
			break
		}
	}

	return page, next, err
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
