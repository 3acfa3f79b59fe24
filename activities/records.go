package activities

import (
	"context"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxRecord bounds a blob that is read whole: transcripts are the largest.
const maxRecord = 256 << 20

func (a *Activities) putJSON(ctx context.Context, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "encode %q", key)
	}
	_, err = a.o.Store.PutBytes(ctx, key, data)
	return err
}

// readJSON reads what putJSON stored; nothing there is a fault.NotFound.
func (a *Activities) readJSON(ctx context.Context, key string, v any) error {
	data, err := a.o.Store.Bytes(ctx, key, maxRecord)
	if err != nil {
		return err
	}
	return fault.Wrap(fault.Internal, json.Unmarshal(data, v), "decode %q", key)
}
