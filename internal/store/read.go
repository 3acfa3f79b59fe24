package store

import (
	"context"
	"io"
	"time"

	"gocloud.dev/blob"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Reader reads the blob from its beginning; fault.NotFound: there is none. Close it before ctx ends.
func (s *Store) Reader(ctx context.Context, key string) (io.ReadCloser, error) {
	return s.rangeReader(ctx, key, 0, -1)
}

// rangeReader reads length bytes from an offset; a negative length reads to the end. The answer is bounded
// in time until its first byte.
func (s *Store) rangeReader(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(s.answer, func() { cancel(unanswered()) })

	r, err := s.bucket.NewRangeReader(ctx, key, offset, length, nil)
	if late.Stop(); err != nil {
		err = s.failed(ctx, err, "read", key)

		cancel(nil)

		return nil, err
	}

	return &blobReader{Reader: r, cancel: cancel}, nil
}

// blobReader ends the context of its request in Close.
type blobReader struct {
	*blob.Reader
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (r *blobReader) Close() error {
	defer r.cancel(nil)
	return r.Reader.Close()
}

// Bytes reads a whole blob of at most limit bytes; a larger one is a fault.Invalid.
func (s *Store) Bytes(ctx context.Context, key string, limit int64) ([]byte, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()

	r, err := s.Reader(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()

	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, s.failed(ctx, err, "read", key)
	}

	if int64(len(data)) > limit {
		return nil, fault.New(fault.Invalid, "read %q: larger than %d bytes", key, limit)
	}

	return data, nil
}

// Tail reads the last n bytes of a blob, or all of it. An agent determines the size of some blobs.
func (s *Store) Tail(ctx context.Context, key string, n int64) ([]byte, error) {
	about, err := s.attributes(ctx, key)
	// some stores refuse every range of an empty blob
	if err != nil || about.Size == 0 {
		return nil, err
	}

	r, err := s.rangeReader(ctx, key, max(about.Size-n, 0), n)
	if err != nil {
		return nil, err
	}
	defer r.Close()

	data, err := io.ReadAll(r)

	return data, classify(err, "read", key)
}

// Size returns the length of a blob in bytes; fault.NotFound: there is none.
func (s *Store) Size(ctx context.Context, key string) (int64, error) {
	about, err := s.attributes(ctx, key)
	if err != nil {
		return 0, err
	}

	return about.Size, nil
}

// Ranges returns the ranges of a blob, each of which is read by a request of its own until ctx ends.
func (s *Store) Ranges(ctx context.Context, key string) io.ReaderAt { return ranges{ctx, s, key} }

type ranges struct {
	ctx context.Context //nolint:containedctx // of the reads, which have no context of their own
	s   *Store
	key string
}

// ReadAt implements io.ReaderAt.
func (r ranges) ReadAt(p []byte, offset int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}

	part, err := r.s.rangeReader(r.ctx, r.key, offset, int64(len(p)))
	if err != nil {
		return 0, err
	}
	defer part.Close()

	n, err := io.ReadFull(part, p)

	return n, classify(err, "read", r.key)
}
