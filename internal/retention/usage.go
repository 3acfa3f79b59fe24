// Package retention says what a store holds, and deletes rollouts that are old enough, of which no trainer waits for
// the data.
package retention

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/store"
)

// Usage is what a store or a host's data folder holds of one kind.
type Usage struct {
	Kind  string `json:"kind"`
	Blobs int    `json:"blobs"`
	Bytes int64  `json:"bytes"`

	// last write of the oldest blob
	Oldest time.Time `json:"oldest"`
}

// Measure lists the whole store and sums it by kind, the largest first.
func Measure(ctx context.Context, s *store.Store) ([]Usage, error) {
	kinds := map[string]*Usage{}

	for b, err := range s.Blobs(ctx, "") {
		if err != nil {
			return nil, err
		}

		addUsage(kinds, Usage{Kind: kindOf(b.Key), Blobs: 1, Bytes: b.Size, Oldest: b.At})
	}

	return sorted(kinds), nil
}

// MeasureFolder sums the files of a host's data folder by the entries of the folder, the largest first, without those
// below a path of skip. A kind is "host: " and the name of the entry, or of that beside which it is kept. A folder that
// does not exist holds nothing.
func MeasureFolder(dir string, skip ...string) ([]Usage, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	kinds := map[string]*Usage{}

	for _, e := range entries {
		u, err := measureTree(filepath.Join(dir, e.Name()), skip)
		if err != nil {
			return nil, err
		}

		u.Kind = "host: " + beside.ReplaceAllString(e.Name(), "")
		addUsage(kinds, u)
	}

	return sorted(kinds), nil
}

// beside is the end of the name of a file that is kept beside another one: of SQLite, a lock, an earlier log.
var beside = regexp.MustCompile(`(-wal|-shm|\.lock|\.1)$`)

// addUsage adds to the sum of a kind.
func addUsage(kinds map[string]*Usage, more Usage) {
	if more.Blobs == 0 {
		return
	}

	u := kinds[more.Kind]
	if u == nil {
		u = &Usage{Kind: more.Kind, Oldest: more.Oldest}
		kinds[more.Kind] = u
	}

	u.Blobs, u.Bytes = u.Blobs+more.Blobs, u.Bytes+more.Bytes
	if more.Oldest.Before(u.Oldest) {
		u.Oldest = more.Oldest
	}
}

// measureTree sums the files of a tree. What is removed or cannot be read meanwhile is left out.
func measureTree(root string, skip []string) (u Usage, err error) {
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil
		case err != nil:
			return err
		case e.IsDir() && slices.Contains(skip, path):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}

		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // removed meanwhile
		}

		u.Blobs, u.Bytes = u.Blobs+1, u.Bytes+info.Size()
		if u.Oldest.IsZero() || info.ModTime().Before(u.Oldest) {
			u.Oldest = info.ModTime()
		}

		return nil
	})

	return u, err
}

// sorted returns the kinds, the largest first.
func sorted(kinds map[string]*Usage) []Usage {
	all := make([]Usage, 0, len(kinds))
	for _, u := range kinds {
		all = append(all, *u)
	}

	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Kind, b.Kind))
	})

	return all
}

// kindOf names what a blob is, for people.
func kindOf(key string) string {
	top, below, nested := strings.Cut(key, "/")
	if !nested {
		return "other"
	}

	if top != rolloutsFolder {
		return strings.ReplaceAll(top, "_", " ")
	}

	switch name := path.Base(key); {
	case strings.Count(below, "/") == 1:
		return "results"
	case strings.Contains(below, "/tools/"):
		return "answers of tools"
	case name == store.Trace, name == store.RoutedExperts, name == store.Images, name == store.TraceIndex:
		return "traces"
	case name == store.Transcript, name == store.AgentEvents, name == store.Steps:
		return "transcripts"
	case path.Ext(name) == ".tar":
		return "workspaces"
	default:
		return "logs"
	}
}
