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

// Uploads keeps files that clients send before the rollouts that use them, by the SHA-256 of their content. Each owner has its own: a
// digest alone does not give the file of another. A rollout that starts copies what it uses.
type Uploads struct {
	Store *Store
	// MaxBytes bounds the files of one owner together; 0: unbounded. Files that are sent at the same time may exceed it by their size.
	MaxBytes int64
	// Keep is how long a file is kept after it was sent.
	Keep time.Duration
}

// Put stores a file of at most rollout.MaxUploadBytes. One whose SHA-256 is not the digest is Invalid and is not stored; one beyond the
// bounds is Exhausted.
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

// Size is the size of a file that the owner has sent and that is kept for at least half of Keep from now; fault.NotFound for others.
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

// Expire deletes the files that were last sent longer than Keep ago, and tells how many there were.
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

// checked fails after left bytes, and at its end where the content is not that of the digest.
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
		return 0, fault.New(fault.Exhausted, "upload: larger than what is left of %d MiB of one file, or of serve.uploads_mib", rollout.MaxUploadBytes>>20)
	}
	c.sum.Write(p[:n])
	if errors.Is(err, io.EOF) {
		if got := hex.EncodeToString(c.sum.Sum(nil)); got != c.digest {
			return n, fault.New(fault.Invalid, "upload: the content has the SHA-256 %s, not %s", got, c.digest)
		}
	}
	return n, err
}
