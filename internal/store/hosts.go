package store

import (
	"context"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// HostRecord has the addresses of a host for the roles of a deployment, and its state when it wrote the record.
type HostRecord struct {
	ID string `json:"id"`

	// URL of its tool service
	ToolsURL string `json:"tools_url"`

	// URL of its API
	URL string `json:"url"`

	// host name; a loopback address is valid only there
	Machine   string    `json:"machine"`
	StartedAt time.Time `json:"started_at"`

	// time of the record
	At time.Time `json:"at"`
	// KeyID is the id of the host's encryption key; empty in records of earlier versions.
	KeyID string `json:"key_id,omitempty"`

	Status fleet.Host `json:"status"`
}

// PutHost records a host; its worker does so at each start and at intervals.
func (s *Store) PutHost(ctx context.Context, h HostRecord) error {
	return s.PutJSON(ctx, hostKey(h.ID), h)
}

// Host returns the record of a host; fault.NotFound: its worker never started.
func (s *Store) Host(ctx context.Context, id string) (h HostRecord, err error) {
	err = s.JSON(ctx, hostKey(id), &h)
	return h, err
}

// Hosts returns the records of all hosts, sorted by name.
func (s *Store) Hosts(ctx context.Context) ([]HostRecord, error) {
	var all []HostRecord

	for key, err := range s.Keys(ctx, hostFolder) {
		if err != nil {
			return nil, err
		}

		id := strings.TrimSuffix(strings.TrimPrefix(key, hostFolder), ".json")

		h, err := s.Host(ctx, id)
		switch {
		case fault.Is(err, fault.NotFound): // deleted meanwhile
		case err != nil:
			return nil, err
		default:
			h.ID = id
			all = append(all, h)
		}
	}

	return all, nil
}

// drainMark is an operator's setting for a host.
type drainMark struct {
	At time.Time `json:"at"`
}

// SetDrained sets whether a host takes new sandboxes. It is valid until it is changed.
func (s *Store) SetDrained(ctx context.Context, host string, on bool) error {
	if !on {
		return s.Delete(ctx, drainKey(host))
	}

	return s.PutJSON(ctx, drainKey(host), drainMark{At: time.Now().UTC()})
}

// Drained reports whether a host takes no new sandboxes.
func (s *Store) Drained(ctx context.Context, host string) (bool, error) {
	return s.Exists(ctx, drainKey(host))
}

// keyRecord has the id of the deployment's encryption key.
type keyRecord struct {
	ID string `json:"id"`

	// time of the first start
	At time.Time `json:"at"`
}

// keyRecordKey is the key of the blob that has the keyRecord.
const keyRecordKey = "deployment/key.json"

// KeyID returns the id of the encryption key of the deployment that the store belongs to; fault.NotFound:
// none is recorded yet.
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

// CheckKeyID returns a fault.Unauthorized if the store belongs to a deployment with another encryption key:
// the processes of two keys cannot read each other's workflows, so that rollouts would fail. A store
// without a recorded key passes.
func (s *Store) CheckKeyID(ctx context.Context, id string) error {
	recorded, err := s.KeyID(ctx)
	switch {
	case fault.Is(err, fault.NotFound) || err == nil && recorded == id:
		return nil
	case err != nil:
		return err
	}

	return fault.New(
		fault.Unauthorized,
		"the encryption key %q of this machine is not the deployment's, which is %q: set "+
			"ROLLOUTD_ENCRYPTION_KEY to the deployment's key, or copy its file \"key\" to the data folder; to change the key of a deployment "+
			"without running rollouts, delete the blob %s of its store",
		id,
		recorded,
		keyRecordKey,
	)
}
