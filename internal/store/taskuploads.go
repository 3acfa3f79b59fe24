package store

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// PutTaskFiles stores the archives of a task's files, including its uploads, and of the verifier's uploads.
// A nil reference: none.
func (s *Store) PutTaskFiles(ctx context.Context, owner string, t rollout.Task) (files, tests *rollout.Ref, err error) {
	texts, _ := t.Split()

	work, verifier := t.SplitUploads()
	if err := s.checkUploads(ctx, owner, t); err != nil {
		return nil, nil, err
	}

	if len(texts)+len(work) > 0 {
		ref, err := s.PutArchive(ctx, texts, keysOf(owner, work))
		if err != nil {
			return nil, nil, err
		}

		files = &ref
	}

	if len(verifier) > 0 {
		ref, err := s.PutArchive(ctx, nil, keysOf(owner, verifier))
		if err != nil {
			return nil, nil, err
		}

		tests = &ref
	}

	return files, tests, nil
}

// checkUploads refuses uploads of another owner, and uploads that are too large together.
func (s *Store) checkUploads(ctx context.Context, owner string, t rollout.Task) error {
	sum := int64(0)

	for name, digest := range t.Uploads {
		key, err := uploadKey(owner, digest)
		if err != nil {
			return err
		}

		about, err := s.attributes(ctx, key)
		if fault.Is(err, fault.NotFound) {
			return fault.Field("uploads", "%q: no upload %s; send it first: PUT /uploads/%s", name, digest, digest)
		} else if err != nil {
			return err
		}

		if sum += about.Size; sum > rollout.MaxUploadBytes {
			return fault.Field("uploads", "must be at most %d bytes together", rollout.MaxUploadBytes)
		}
	}

	return nil
}

func keysOf(owner string, digests map[string]string) map[string]string {
	keys := map[string]string{}
	for name, digest := range digests {
		keys[name] = rollout.UploadKey(ownerKey(owner), digest)
	}

	return keys
}
