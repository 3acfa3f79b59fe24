// Package store stores the data of rollouts (results, traces, logs, workspaces) as blobs under stable keys:
// in a folder by default, or at any gocloud.dev/blob URL. Workflows carry only references to it.
//
// A write is atomic, even across power cuts, and replaces an earlier blob of the key, so an activity may run twice.
package store

import (
	"context"
	"os"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Store holds blobs by key. It is safe for concurrent use.
type Store struct {
	bucket *blob.Bucket

	// "": the store is a bucket
	folder string

	// scheme of the bucket's URL
	scheme string

	// makes a file, or a folder's names, survive a power cut
	sync func(*os.File) error

	// bounds a call of a bucket that transfers little data
	answer   time.Duration
	quota    Quota
	measured measured
}

// Option changes how a store is opened.
type Option func(*Store)

// WithQuota bounds what the store holds; without it nothing is bounded.
func WithQuota(q Quota) Option { return func(s *Store) { s.quota = q } }

// Open opens the store at url. A plain path is a folder, created if missing and readable only by its owner.
// A URL with a scheme ("s3://bucket?region=…") uses the gocloud.dev/blob driver of that scheme, which the
// program must import (package cloud). Open does not connect to a bucket; Check does.
func Open(ctx context.Context, url string, options ...Option) (*Store, error) {
	if err := checkURL(url); err != nil {
		return nil, err
	}

	bucket, err := open(ctx, url)
	if err != nil && strings.Contains(err.Error(), "AccountName is required") {
		return nil, fault.Wrap(fault.Invalid, err, "open store %q: AZURE_STORAGE_ACCOUNT is missing", url)
	}

	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "open store %q", url)
	}

	scheme, _, _ := strings.Cut(url, "://")

	s := &Store{bucket: bucket, scheme: scheme, sync: (*os.File).Sync, answer: answerTimeout}
	if !remote(url) {
		s.folder, s.scheme = url, ""
	}

	for _, o := range options {
		o(s)
	}

	return s, nil
}

// checkURL refuses credentials in a URL, since logs and errors show it.
func checkURL(url string) error {
	if before, _, found := strings.Cut(url, "@"); found && remote(before) {
		return fault.New(fault.Invalid,
			"open store: its URL must have no credentials; the store reads them from its own variables, such as AWS_ACCESS_KEY_ID")
	}

	return nil
}

// Remote reports whether the store is a bucket, which is reached over a network.
func (s *Store) Remote() bool { return s.folder == "" }

func remote(url string) bool { return strings.Contains(url, "://") }

func open(ctx context.Context, url string) (*blob.Bucket, error) {
	if remote(url) {
		return blob.OpenBucket(ctx, quiet(url))
	}

	return fileblob.OpenBucket(url, &fileblob.Options{
		CreateDir:   true,
		DirFileMode: 0o700,
		NoTempDir:   true, // the temporary directory may be on another file system, where a rename fails
		Metadata:    fileblob.MetadataDontWrite,
	})
}

// schemeGCS is the scheme of a bucket of Google Cloud Storage.
const schemeGCS = "gs"

// quiet prevents a warning of the AWS SDK on stderr for each blob that was written in parts, whose checksum
// it cannot verify.
func quiet(url string) string {
	const setting = "response_checksum_validation"
	if !strings.HasPrefix(url, "s3://") || strings.Contains(url, setting) {
		return url
	}

	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}

	return url + separator + setting + "=when_required"
}

// Close releases the store.
func (s *Store) Close() error { return s.bucket.Close() }

// Exists reports whether key has a blob.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	_, err := s.attributes(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}

	return err == nil, err
}

// attributes requests a blob's attributes. S3 answers a HEAD alike for a missing blob and a missing bucket;
// a GET distinguishes them.
func (s *Store) attributes(ctx context.Context, key string) (*blob.Attributes, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()

	about, err := s.bucket.Attributes(ctx, key)
	if err == nil || s.scheme != "s3" || codeOf(err) != gcerrors.NotFound {
		return about, s.failed(ctx, err, "look for", key)
	}

	r, err := s.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, s.failed(ctx, err, "look for", key)
	}
	// it was written meanwhile
	defer r.Close()

	return &blob.Attributes{Size: r.Size(), ModTime: r.ModTime()}, nil
}

// Delete deletes the blob of key. A missing one is not an error.
func (s *Store) Delete(ctx context.Context, key string) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()

	return fault.Ignore(s.failed(ctx, s.bucket.Delete(ctx, key), "delete", key), fault.NotFound)
}
