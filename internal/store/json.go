package store

import (
	"context"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxJSON bounds a JSON blob, in bytes; transcripts are the largest.
const maxJSON = 256 << 20

// PutJSON stores v under key, encoded as JSON.
func (s *Store) PutJSON(ctx context.Context, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "encode %q", key)
	}

	_, err = s.PutBytes(ctx, key, data)

	return err
}

// JSON decodes the JSON blob of key into v; fault.NotFound: there is none.
func (s *Store) JSON(ctx context.Context, key string, v any) error {
	data, err := s.Bytes(ctx, key, maxJSON)
	if err != nil {
		return err
	}

	return fault.Wrap(fault.Internal, json.Unmarshal(data, v), "decode %q", key)
}
