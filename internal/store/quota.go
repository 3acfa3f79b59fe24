package store

import (
	"context"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Quota bounds what the store holds; zero fields are unbounded.
type Quota struct {
	// RolloutBytes bounds the blobs of each attempt of a rollout. Only archives, which are as large as an
	// agent makes them, are refused: traces and results have bounds of their own, and a rollout must not
	// lose them to its workspace.
	RolloutBytes int64
	// MaxBytes is the high-water mark of the whole store.
	MaxBytes int64
	// MinFreeBytes is the high-water mark of the file system, for a store in a folder: the space that must
	// be left. A hundredth of its inodes must be left, too.
	MinFreeBytes int64
}

// measureEvery is how long a measurement of the whole store counts.
const measureEvery = time.Minute

// measured is the size of the whole store at a time.
type measured struct {
	mu    sync.Mutex
	at    time.Time
	bytes int64
}

// Full is nil while the store takes further rollouts, and a fault.Exhausted with the reason above its
// high-water mark. It does not keep anyone from writing: rollouts that have begun finish.
func (s *Store) Full(ctx context.Context) error {
	if err := s.fullDisk(); err != nil {
		return err
	}

	if s.quota.MaxBytes == 0 {
		return nil
	}

	size, err := s.size(ctx)
	if err != nil {
		return err
	}

	if size >= s.quota.MaxBytes {
		return fault.New(fault.Exhausted,
			"store is full: it holds %d MiB, store.max_mib is %d; delete old rollouts or raise it",
			size>>20, s.quota.MaxBytes>>20)
	}

	return nil
}

func (s *Store) fullDisk() error {
	if s.folder == "" || s.quota.MinFreeBytes == 0 {
		return nil
	}

	var fs unix.Statfs_t
	if err := unix.Statfs(s.folder, &fs); err != nil {
		return fault.Wrap(fault.Unavailable, err, "free space of store %q", s.folder)
	}

	free := int64(fs.Bavail) * fs.Bsize
	switch {
	case free < s.quota.MinFreeBytes:
		return fault.New(fault.Exhausted,
			"store is full: its disk has %d MiB left, store.min_free_mib is %d; free space or lower it",
			free>>20, s.quota.MinFreeBytes>>20)
	case fs.Files > 0 && fs.Ffree < fs.Files/100:
		return fault.New(fault.Exhausted, "store is full: its disk has %d of %d inodes left; delete files",
			fs.Ffree, fs.Files)
	}

	return nil
}

// size is the size of the whole store, measured once a minute for all who ask.
func (s *Store) size(ctx context.Context) (int64, error) {
	s.measured.mu.Lock()
	defer s.measured.mu.Unlock()

	if !s.measured.at.IsZero() && time.Since(s.measured.at) < measureEvery {
		return s.measured.bytes, nil
	}

	size, err := s.sizeOf(ctx, "", "")
	if err == nil {
		s.measured.at, s.measured.bytes = time.Now(), size
	}

	return size, err
}

// sizeOf sums the blobs whose keys begin with prefix, but for one key.
func (s *Store) sizeOf(ctx context.Context, prefix, but string) (sum int64, err error) {
	for b, err := range s.Blobs(ctx, prefix) {
		if err != nil {
			return sum, err
		}

		if b.Key != but {
			sum += b.Size
		}
	}

	return sum, nil
}

// within bounds r by what is left of the quota, for an archive of an attempt. Earlier attempts were lost to
// infrastructure: what they left takes nothing from this one.
func (s *Store) within(ctx context.Context, key string, r io.Reader) (io.Reader, error) {
	if s.quota.RolloutBytes == 0 || !strings.Contains(key, "/attempts/") || path.Ext(key) != ".tar" {
		return r, nil
	}

	used, err := s.sizeOf(ctx, path.Dir(key)+"/", key)
	if err != nil {
		return nil, err
	}

	return &quotaReader{r: r, left: max(s.quota.RolloutBytes-used, 0), quota: s.quota.RolloutBytes}, nil
}

// quotaReader fails once more than left bytes were read.
type quotaReader struct {
	r           io.Reader
	left, quota int64
}

// Read implements io.Reader.
func (b *quotaReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fault.New(fault.OutOfDisk, "the attempt's blobs exceed %d MiB (store.rollout_mib)", b.quota>>20)
	}

	return n, err
}
