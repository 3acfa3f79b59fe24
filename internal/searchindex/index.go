package searchindex

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/rolloutd/rolloutd/internal/store"
)

// version is that of the file's tables and of what they have of a rollout. A file of another version is made again.
const version = 4

// The number of a rollout is the end of its last attempt in Unix microseconds, or the next free number: the order of
// the rows is that of a list, and a page needs no sorting. Started and duration are in microseconds, too; tokens are
// those of the completions; version is that of the weights of the first reply, and course is JSON of a course.
const schema = `
CREATE TABLE rollouts (
	n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, task_id TEXT NOT NULL, group_id TEXT NOT NULL, owner TEXT NOT NULL,
	model TEXT NOT NULL, agent TEXT NOT NULL, endpoint TEXT NOT NULL, outcome TEXT NOT NULL, reward REAL, turns INTEGER,
	tokens INTEGER, duration INTEGER, started INTEGER NOT NULL, version TEXT NOT NULL, course BLOB NOT NULL,
	listed BLOB NOT NULL
);
CREATE VIRTUAL TABLE texts USING fts5(text);`

// Index finds rollouts of a store. It is safe for concurrent use, also by several processes.
type Index struct {
	db    *sql.DB
	store *store.Store
	log   *slog.Logger

	// bound of the file; 0: none
	maxBytes int64

	// the store was listed once
	listed atomic.Bool

	// ended rollouts that the latest list of the store had and that are not in the index yet
	missing atomic.Int64

	// what ended before is in the index, in Unix microseconds; 0: not known yet
	until atomic.Int64

	// used by Update alone
	unfinished map[string]unfinished

	// how long the latest list of the store took, of Update and Run
	listing time.Duration
}

// Open opens the index in a file, and makes the file if it is missing or cannot be used. Beyond maxBytes the index forgets
// the texts of the rollouts that ended first; 0: no bound.
func Open(ctx context.Context, file string, s *store.Store, maxBytes int64, log *slog.Logger) (*Index, error) {
	db, err := open(ctx, file)

	// The file of a server that is stopped while it opens it is sound.
	if err != nil && ctx.Err() == nil {
		log.WarnContext(ctx, "the index of transcripts is made again", "file", file, "error", err)

		if err = Remove(file); err == nil {
			db, err = open(ctx, file)
		}
	}

	if err != nil {
		return nil, fmt.Errorf("index of transcripts %s: %w", file, err)
	}

	return &Index{db: db, store: s, log: log, maxBytes: maxBytes, unfinished: map[string]unfinished{}}, nil
}

// Close closes the file.
func (x *Index) Close() error { return x.db.Close() }

func open(ctx context.Context, file string) (*sql.DB, error) {
	// The transcripts are as private as the store. Their files are made with the mode of this one.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	if err := f.Close(); err != nil {
		return nil, err
	}

	// A crash may lose the latest rollouts, which are added again.
	pragmas := url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(wal)", "synchronous(normal)"}, "_txlock": {"immediate"},
	}

	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+pragmas.Encode())
	if err != nil {
		return nil, err
	}

	// a search must not wait for another one, nor for the update
	db.SetMaxOpenConns(maxConnections)

	if err := prepare(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}

	return db, nil
}

const maxConnections = 4

// prepare makes the tables of a new file; a file of another version is an error.
func prepare(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()

	var found int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found); err != nil {
		return err
	}

	switch found {
	case version:
		return nil
	case 0:
	default:
		return fmt.Errorf("it has version %d, this program makes %d", found, version)
	}

	if _, err := tx.ExecContext(ctx, fmt.Sprintf("%s PRAGMA user_version = %d", schema, version)); err != nil {
		return err
	}

	return tx.Commit()
}

// Remove removes the file of an index that is not open, and those that SQLite keeps beside it.
func Remove(file string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return nil
}
