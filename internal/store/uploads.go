package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"path"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Uploads stores files that clients send before the rollouts that use them, by the SHA-256 of their
// content. Each owner has separate files: a digest alone does not give access to another's. A rollout
// copies what it uses when it starts.
type Uploads struct {
	Store *Store
	// MaxBytes bounds the files of one owner together; 0: unbounded. Parallel uploads may exceed it by their size.
	MaxBytes int64
	// Keep is the time for which a file is kept after it was sent.
	Keep time.Duration
}

// Put stores a file of at most rollout.MaxUploadBytes. A file with another SHA-256 is a fault.Invalid; one
// beyond the bounds is a fault.Exhausted.
func (u Uploads) Put(ctx context.Context, owner, digest string, r io.Reader) (int64, error) {
	key, err := uploadKey(owner, digest)
	if err != nil {
		return 0, err
	}

	left := int64(rollout.MaxUploadBytes)

	if u.MaxBytes > 0 {
		used, err := u.Store.sizeOf(ctx, path.Dir(key)+"/", key)
		if err != nil {
			return 0, err
		}

		left = min(left, u.MaxBytes-used)
	}

	if err := u.Store.Full(ctx); err != nil {
		return 0, err
	}

	ref, err := u.Store.Put(ctx, key, &checked{r: r, left: left, sum: sha256.New(), digest: digest})

	return ref.Size, err
}

// Size returns the size of an owner's file that is kept for at least half of Keep from now; fault.NotFound:
// there is none.
func (u Uploads) Size(ctx context.Context, owner, digest string) (int64, error) {
	key, err := uploadKey(owner, digest)
	if err != nil {
		return 0, err
	}

	about, err := u.Store.attributes(ctx, key)
	if err == nil && time.Since(about.ModTime) < u.Keep/2 {
		return about.Size, nil
	}

	if err != nil && !fault.Is(err, fault.NotFound) {
		return 0, err
	}

	return 0, fault.New(fault.NotFound, "no upload %s", digest)
}

// Expire deletes the files that were last sent longer than Keep ago, and returns their number.
func (u Uploads) Expire(ctx context.Context) (removed int, err error) {
	return u.Store.expire(ctx, "uploads/", time.Now().Add(-u.Keep))
}

func uploadKey(owner, digest string) (string, error) {
	return rollout.UploadKey(ownerKey(owner), digest), rollout.CheckUpload(digest)
}

// ownerKey is a name as part of a key.
func ownerKey(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:16])
}

// checked fails after left bytes, and at the end if the content does not have the digest.
type checked struct {
	r      io.Reader
	left   int64
	sum    hash.Hash
	digest string
}

// Read implements io.Reader.
func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, fault.New(fault.Exhausted,
			"upload: a file must be at most %d MiB, and the files of a token together at most serve.uploads_mib",
			rollout.MaxUploadBytes>>20)
	}

	c.sum.Write(p[:n])

	if errors.Is(err, io.EOF) {
		if got := hex.EncodeToString(c.sum.Sum(nil)); got != c.digest {
			return n, fault.New(fault.Invalid, "upload: the content has the SHA-256 %s, not %s", got, c.digest)
		}
	}

	return n, err
}
