package queue

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"go.etcd.io/bbolt"
)

// files stores the payload of each queued group in a file, named by its id. The database would copy
// payloads into pages, and each change would cost as much as the payloads on them.
type files struct{ folder string }

func (f files) path(id uint64) string {
	return filepath.Join(f.folder, strconv.FormatUint(id, 10)+".json")
}

// writePayload returns when the payload is synced. An id that was not committed is reused, and its file overwritten.
func (f files) writePayload(id uint64, payload []byte) error {
	file, err := os.OpenFile(f.path(id), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	_, err = file.Write(payload)
	if err == nil {
		err = file.Sync()
	}

	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}

	folder, err := os.Open(f.folder)
	if err != nil {
		return err
	}

	return errors.Join(folder.Sync(), folder.Close())
}

// get returns a payload; nil: none.
func (f files) get(id uint64) ([]byte, error) {
	payload, err := os.ReadFile(f.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	return payload, err
}

// removePayload removes a payload after the transaction is committed. The next sweep removes a file that stays.
func (f files) removePayload(tx *bbolt.Tx, id uint64) {
	tx.OnCommit(func() { _ = os.Remove(f.path(id)) })
}

// sweep removes the files of groups that do not exist, left by a killed process.
func (f files) sweep(held func(id uint64) bool) error {
	entries, err := os.ReadDir(f.folder)
	if err != nil {
		return err
	}

	for _, e := range entries {
		id, err := strconv.ParseUint(e.Name()[:len(e.Name())-len(filepath.Ext(e.Name()))], 10, 64)
		if err == nil && !held(id) {
			err = os.Remove(f.path(id))
		}

		if err != nil {
			return err
		}
	}

	return nil
}
