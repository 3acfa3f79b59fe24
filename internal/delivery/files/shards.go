package files

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rolloutd/rolloutd/internal/durable"
)

// shards is the database of a folder.
type shards struct{ db *bbolt.DB }

var (
	// number of the group → its lines
	staged = []byte("staged")

	// idempotency key → number of the group
	keys = []byte("keys")

	// one record: state
	about = []byte("about")

	// its key
	present = []byte("present")
)

// state is the rest of the database's state.
type state struct {
	// closed files
	Files int `json:"files"`

	// arrival of the first staged group
	Since time.Time `json:"since"`

	// the last group of the file that is being closed; 0: none
	Closing uint64 `json:"closing,omitempty"`

	// name of that file, once it is complete under its temporary name
	Written string `json:"written,omitempty"`
}

// stage stores a group until its file is closed. It does nothing for a known key.
func (s *shards) stage(key string, lines []byte, now time.Time) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		seen, err := tx.CreateBucketIfNotExists(keys)
		if err != nil || seen.Get([]byte(key)) != nil {
			return err
		}

		waiting, err := tx.CreateBucketIfNotExists(staged)
		if err != nil {
			return err
		}

		if first, _ := waiting.Cursor().First(); first == nil {
			if err := change(tx, func(st *state) { st.Since = now }); err != nil {
				return err
			}
		}

		n, err := seen.NextSequence()
		if err != nil {
			return err
		}

		if err := seen.Put([]byte(key), number(n)); err != nil {
			return err
		}

		return waiting.Put(number(n), lines)
	})
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func change(tx *bbolt.Tx, do func(*state)) error {
	b, err := tx.CreateBucketIfNotExists(about)
	if err != nil {
		return err
	}

	st, err := read(tx)
	if err != nil {
		return err
	}

	do(&st)

	data, err := json.Marshal(st)
	if err != nil {
		return err
	}

	return b.Put(present, data)
}

func read(tx *bbolt.Tx) (st state, err error) {
	if b := tx.Bucket(about); b != nil && b.Get(present) != nil {
		err = json.Unmarshal(b.Get(present), &st)
	}

	return st, err
}

// waiting returns the number of staged groups, at most most, and the state.
func (s *shards) waiting(most int) (n int, st state, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(staged); b != nil {
			for k, _ := b.Cursor().First(); k != nil && n < most; n++ {
				k = next(b, k)
			}
		}

		st, err = read(tx)

		return err
	})

	return n, st, err
}

func next(b *bbolt.Bucket, after []byte) []byte {
	c := b.Cursor()
	c.Seek(after)
	k, _ := c.Next()

	return k
}

// closeDue closes files that are full, and one that is old enough.
func (s *shards) closeDue(o Options, now time.Time) error {
	for {
		n, st, err := s.waiting(o.Groups)
		if err != nil || n == 0 || n < o.Groups && now.Sub(st.Since) < o.Age {
			return err
		}

		if err := s.close(o); err != nil {
			return err
		}
	}
}

// close writes a file of the staged groups, at most Options.Groups. It first records which, so that after a
// crash the same file is written again.
func (s *shards) close(o Options) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(staged)
		if b == nil {
			return nil
		}

		last := uint64(0)

		c := b.Cursor()
		for k, n := first(c), 0; k != nil && n < o.Groups; n++ {
			last = binary.BigEndian.Uint64(k)
			k, _ = c.Next()
		}

		return change(tx, func(st *state) { st.Closing = last })
	})
	if err != nil {
		return err
	}

	return s.recover(o)
}

func first(c *bbolt.Cursor) []byte {
	k, _ := c.First()
	return k
}

// recover writes the file that is being closed, if any, and then removes its groups. The rename removes the
// temporary name, so a complete file without it was renamed before a crash. It is not written again,
// because a reader may have moved it away.
func (s *shards) recover(o Options) error {
	_, st, err := s.waiting(0)
	if err != nil || st.Closing == 0 {
		return err
	}

	if st.Written == "" {
		st.Written = fmt.Sprintf("shard-%06d.%s", st.Files+1, o.Format)

		if err := s.db.View(func(tx *bbolt.Tx) error {
			return writeFile(temporary(o.Folder, st.Written), o.Format, groups(tx, st.Closing))
		}); err != nil {
			return err
		}

		if err := s.db.Update(func(tx *bbolt.Tx) error {
			return change(tx, func(now *state) { now.Written = st.Written })
		}); err != nil {
			return err
		}
	}

	if err := os.Rename(temporary(o.Folder, st.Written), filepath.Join(o.Folder, st.Written)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return err
	}

	if err := durable.SyncFolder(o.Folder); err != nil {
		return err
	}

	return s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(staged)
		for k := first(b.Cursor()); k != nil && binary.BigEndian.Uint64(k) <= st.Closing; k = first(b.Cursor()) {
			if err := b.Delete(k); err != nil {
				return err
			}
		}

		return change(tx, func(st *state) {
			st.Files, st.Closing, st.Written, st.Since = st.Files+1, 0, "", time.Now()
		})
	})
}

func temporary(folder, name string) string { return filepath.Join(folder, "."+name+".tmp") }

// groups calls each with the lines of every staged group up to last.
func groups(tx *bbolt.Tx, last uint64) func(each func(lines []byte) error) error {
	return func(each func(lines []byte) error) error {
		c := tx.Bucket(staged).Cursor()
		for k, lines := c.First(); k != nil && binary.BigEndian.Uint64(k) <= last; k, lines = c.Next() {
			if err := each(lines); err != nil {
				return err
			}
		}

		return nil
	}
}

// writeFile writes a file and syncs it with its name.
func writeFile(path string, format Format, all func(func([]byte) error) error) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}

	err = format.write(f, all)
	if err == nil {
		err = f.Sync()
	}

	if e := f.Close(); err == nil {
		err = e
	}

	if err != nil {
		return err
	}

	return durable.SyncFolder(filepath.Dir(path))
}
