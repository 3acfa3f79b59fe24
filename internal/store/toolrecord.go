package store

import (
	"context"
	"path"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// ToolRecord stores the answers of tool servers to an attempt; it implements tool.Record.
type ToolRecord struct {
	store  *Store
	prefix string
}

// ToolRecord returns the record of an attempt.
func (s *Store) ToolRecord(rolloutID string, attempt int) ToolRecord {
	return ToolRecord{store: s, prefix: AttemptKey(rolloutID, attempt, "tools")}
}

// Load implements tool.Record.
func (r ToolRecord) Load(ctx context.Context, key string, v any) (bool, error) {
	err := r.store.JSON(ctx, r.key(key), v)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}

	return err == nil, err
}

// Save implements tool.Record.
func (r ToolRecord) Save(ctx context.Context, key string, v any) error {
	return r.store.PutJSON(ctx, r.key(key), v)
}

func (r ToolRecord) key(name string) string { return path.Join(r.prefix, name+".json") }
