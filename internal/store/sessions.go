package store

import (
	"bytes"
	"context"
	"os"
	"time"
)

// maxSession bounds a stored session, in bytes.
const maxSession = 1 << 20

// Sessions stores small records under keys of the caller, beside the rollouts.
type Sessions struct{ Store *Store }

// Load reads a record; fault.NotFound: there is none.
func (s Sessions) Load(ctx context.Context, key string) ([]byte, error) {
	return s.Store.Bytes(ctx, sessionKey(key), maxSession)
}

// Save replaces a record. A power cut may lose it: sessions are many and short-lived.
func (s Sessions) Save(ctx context.Context, key string, data []byte) error {
	_, err := s.Store.put(ctx, sessionKey(key), bytes.NewReader(data), func(*os.File) error { return nil })
	return err
}

// Delete deletes a record. A missing one is not an error.
func (s Sessions) Delete(ctx context.Context, key string) error {
	return s.Store.Delete(ctx, sessionKey(key))
}

// Expire deletes the records that were last written before that time, and returns their number.
func (s Sessions) Expire(ctx context.Context, before time.Time) (removed int, err error) {
	return s.Store.expire(ctx, sessionFolder, before)
}
