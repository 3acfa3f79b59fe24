package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gocloud.dev/blob"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	contentType = "application/octet-stream"
	// partsAtOnce bounds the parts of a blob that are uploaded in parallel. Each takes 5 MiB of memory.
	partsAtOnce = 2
)

// Put stores all of r under key and returns its size and digest. If r fails, nothing is stored; a blob that
// would exceed the rollout's quota is a fault.OutOfDisk. Stored data survives a power cut, since an
// activity takes an existing blob for complete.
func (s *Store) Put(ctx context.Context, key string, r io.Reader) (rollout.Ref, error) {
	return s.put(ctx, key, r, s.sync)
}

func (s *Store) put(ctx context.Context, key string, r io.Reader, sync func(*os.File) error) (rollout.Ref, error) {
	r, err := s.within(ctx, key, r)
	if err != nil {
		return rollout.Ref{}, err
	}

	if data, ok := r.(*bytes.Reader); ok && s.folder == "" {
		return s.upload(ctx, key, data)
	}
	// canceling the context before Close aborts the write
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// the temporary file; nil: the store is not a folder
	var file *os.File

	w, err := s.bucket.NewWriter(ctx, key, &blob.WriterOptions{
		ContentType:    contentType,
		MaxConcurrency: partsAtOnce,
		BeforeWrite:    func(as func(any) bool) error { return ownerOnly(as, &file) },
	})
	if err != nil {
		return rollout.Ref{}, classify(err, "store", key)
	}

	sum := sha256.New()
	to := &blobWriter{ctx: ctx, s: s, w: w, key: key, cancel: cancel}

	n, err := io.Copy(io.MultiWriter(to, sum), r)
	if err == nil && file != nil {
		err = classify(sync(file), "sync", key)
	}

	if err != nil {
		cancel(nil)
		// returns the error of this cancellation
		_ = w.Close()

		return rollout.Ref{}, fmt.Errorf("store %q: %w", key, err)
	}

	if err := to.finish(); err != nil {
		return rollout.Ref{}, err
	}

	ref := rollout.Ref{Key: key, Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Size: n}

	return ref, classify(syncFolder(file, sync), "sync", key)
}

// upload stores data in a bucket by one request. A writer would allocate memory for a part.
func (s *Store) upload(ctx context.Context, key string, data *bytes.Reader) (rollout.Ref, error) {
	sum := sha256.New()

	size, err := io.Copy(sum, data)
	if err == nil {
		_, err = data.Seek(0, io.SeekStart)
	}

	if err != nil {
		return rollout.Ref{}, fmt.Errorf("store %q: %w", key, err)
	}

	ctx, cancel := s.withTimeout(ctx)
	defer cancel()

	err = s.bucket.Upload(ctx, key, data, &blob.WriterOptions{ContentType: contentType})

	return rollout.Ref{
		Key:    key,
		Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)),
		Size:   size,
	}, s.failed(ctx, err, "store", key)
}

// ownerOnly finds the file of a blob, if the store is a folder, and makes it readable only by its owner.
func ownerOnly(as func(any) bool, file **os.File) error {
	if !as(file) {
		return nil
	}

	return (*file).Chmod(0o600)
}

// syncFolder makes the rename of a file durable.
func syncFolder(of *os.File, sync func(*os.File) error) error {
	if of == nil {
		return nil
	}

	folder, err := os.Open(filepath.Dir(of.Name()))
	if err != nil {
		return err
	}

	return errors.Join(sync(folder), folder.Close())
}

// PutBytes stores data under key.
func (s *Store) PutBytes(ctx context.Context, key string, data []byte) (rollout.Ref, error) {
	return s.Put(ctx, key, bytes.NewReader(data))
}
