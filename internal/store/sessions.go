package store

import (
	"bytes"
	"context"
	"os"
	"path"
	"time"
)

// sessions is where they lie.
const sessions = "sessions"

// maxSession bounds a kept session, in bytes.
const maxSession = 1 << 20

// Sessions keeps small records under keys of their owner's making, beside the rollouts.
type Sessions struct{ Store *Store }

// Load reads a record; fault.NotFound when there is none.
func (s Sessions) Load(ctx context.Context, key string) ([]byte, error) {
	return s.Store.Bytes(ctx, sessionKey(key), maxSession)
}

// Save writes a record over the one before. A power cut may lose it: they are many, and short-lived.
func (s Sessions) Save(ctx context.Context, key string, data []byte) error {
	_, err := s.Store.put(ctx, sessionKey(key), bytes.NewReader(data), func(*os.File) error { return nil })
	return err
}

// Delete forgets a record; one that is not there is no error.
func (s Sessions) Delete(ctx context.Context, key string) error {
	return s.Store.Delete(ctx, sessionKey(key))
}

// Expire deletes the records that were last written before a time, and tells how many there were.
func (s Sessions) Expire(ctx context.Context, before time.Time) (removed int, err error) {
	return s.Store.expire(ctx, sessions+"/", before)
}

func sessionKey(key string) string { return path.Join(sessions, key+".json") }
