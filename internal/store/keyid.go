package store

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// keyRecord has the id of the deployment's encryption key.
type keyRecord struct {
	ID string    `json:"id"`
	At time.Time `json:"at"` // of the first start
}

// keyRecordKey is the key of the blob that has the keyRecord.
const keyRecordKey = "deployment/key.json"

// KeyID returns the id of the encryption key of the deployment that the store belongs to; fault.NotFound: none is recorded yet.
func (s *Store) KeyID(ctx context.Context) (string, error) {
	var r keyRecord
	err := s.JSON(ctx, keyRecordKey, &r)
	return r.ID, err
}

// RecordKeyID records the id of the deployment's encryption key, unless one is recorded.
func (s *Store) RecordKeyID(ctx context.Context, id string) error {
	_, err := s.KeyID(ctx)
	if fault.Is(err, fault.NotFound) {
		return s.PutJSON(ctx, keyRecordKey, keyRecord{ID: id, At: time.Now().UTC()})
	}
	return err
}

// CheckKeyID returns a fault.Unauthorized if the store belongs to a deployment with another encryption key: the processes of two keys
// cannot read each other's workflows, so that rollouts would fail. A store without a recorded key passes.
func (s *Store) CheckKeyID(ctx context.Context, id string) error {
	recorded, err := s.KeyID(ctx)
	switch {
	case fault.Is(err, fault.NotFound) || err == nil && recorded == id:
		return nil
	case err != nil:
		return err
	}
	return fault.New(fault.Unauthorized, "the encryption key %q of this machine is not the deployment's, which is %q: set "+
		"ROLLOUTD_ENCRYPTION_KEY to the deployment's key, or copy its file \"key\" to the data folder; to change the key of a deployment "+
		"without running rollouts, delete the blob %s of its store", id, recorded, keyRecordKey)
}
