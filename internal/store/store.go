package store

import (
	"context"
	"io"
	"os"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Store is a set of blobs by key. It is safe for concurrent use.
type Store struct {
	bucket   *blob.Bucket
	folder   string               // empty: the store is a bucket
	sync     func(*os.File) error // makes a file, or the names in a folder, survive a power cut
	quota    Quota
	measured measured
}

// Option changes how a store is opened.
type Option func(*Store)

// WithQuota bounds what the store holds; without it nothing is bounded.
func WithQuota(q Quota) Option { return func(s *Store) { s.quota = q } }

// Open opens the store at url: a plain path is a folder, made when missing and readable by its owner only; anything with a
// scheme ("s3://bucket?region=…") goes to the gocloud.dev/blob driver of that scheme, which the program must have imported.
func Open(ctx context.Context, url string, options ...Option) (*Store, error) {
	bucket, err := open(ctx, url)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "open store %q", url)
	}
	s := &Store{bucket: bucket, sync: (*os.File).Sync}
	if !remote(url) {
		s.folder = url
	}
	for _, o := range options {
		o(s)
	}
	return s, nil
}

func remote(url string) bool { return strings.Contains(url, "://") }

func open(ctx context.Context, url string) (*blob.Bucket, error) {
	if remote(url) {
		return blob.OpenBucket(ctx, url)
	}
	return fileblob.OpenBucket(url, &fileblob.Options{
		CreateDir:   true,
		DirFileMode: 0o700,
		NoTempDir:   true, // the temporary directory may lie on another file system, where a rename fails
		Metadata:    fileblob.MetadataDontWrite,
	})
}

// Close releases the store.
func (s *Store) Close() error { return s.bucket.Close() }

// Reader reads the blob from its beginning; a key that holds nothing is a fault.NotFound.
func (s *Store) Reader(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := s.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, classify(err, "read", key)
	}
	return r, nil
}

// Bytes reads a whole blob of at most limit bytes; a larger one is a fault.Invalid.
func (s *Store) Bytes(ctx context.Context, key string, limit int64) ([]byte, error) {
	r, err := s.Reader(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, classify(err, "read", key)
	}
	if int64(len(data)) > limit {
		return nil, fault.New(fault.Invalid, "read %q: larger than %d bytes", key, limit)
	}
	return data, nil
}

// Tail reads the last n bytes of a blob, or what there is of them: of one that is as large as an agent cared to make it.
func (s *Store) Tail(ctx context.Context, key string, n int64) ([]byte, error) {
	about, err := s.bucket.Attributes(ctx, key)
	if err != nil || about.Size == 0 { // some stores refuse any range of an empty blob
		return nil, classify(err, "look for", key)
	}
	r, err := s.bucket.NewRangeReader(ctx, key, max(about.Size-n, 0), n, nil)
	if err != nil {
		return nil, classify(err, "read", key)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return data, classify(err, "read", key)
}

// Exists says whether key holds a blob.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	ok, err := s.bucket.Exists(ctx, key)
	return ok, classify(err, "look for", key)
}

// Delete forgets key; one that holds nothing is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.bucket.Delete(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return classify(err, "delete", key)
}

// classify gives a driver's error its kind. What the driver cannot name is taken as passing, so that a hiccup of a remote
// store does not cost a rollout.
func classify(err error, doing, key string) error {
	if err == nil {
		return nil
	}
	kind := fault.Unavailable
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		kind = fault.NotFound
	case gcerrors.InvalidArgument:
		kind = fault.Invalid
	case gcerrors.PermissionDenied:
		kind = fault.Unauthorized
	}
	return fault.Wrap(kind, err, "%s %q", doing, key)
}
