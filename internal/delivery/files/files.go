// Package files is the sink that writes groups to files in a folder, a number of groups each.
//
// A file is written under a temporary name and renamed. Until then its groups are in a small database in
// the folder, which also has the keys of all delivered groups. The database is open, and locked, only
// during a call, so that processes can share the folder.
package files

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// Options of a sink.
type Options struct {
	Folder string
	Format Format

	// number of groups in a file; 0: 1
	Groups int

	// time after its first group at which a file is closed with fewer groups; 0: 10 minutes
	Age time.Duration
}

const (
	defaultAge = 10 * time.Minute
	// lockWait bounds the wait for another process that uses the folder.
	lockWait = 2 * time.Minute
	database = ".rolloutd.db"
)

// Sink writes groups to files. It implements delivery.Sink.
type Sink struct {
	o   Options
	now func() time.Time
}

// New returns the sink of a folder, which the first delivery creates.
func New(o Options) *Sink {
	o.Groups = max(o.Groups, 1)
	if o.Age == 0 {
		o.Age = defaultAge
	}

	return &Sink{o: o, now: time.Now}
}

// Status reports unbounded room, or why the folder cannot be used.
func (s *Sink) Status(ctx context.Context) (delivery.Status, error) {
	return delivery.Status{Ready: true, Room: delivery.Unbounded}, s.with(ctx, func(*shards) error { return nil })
}

// CloseDue closes a file that is due.
func (s *Sink) CloseDue(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(s.o.Folder, database)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return s.with(ctx, func(sh *shards) error { return sh.closeDue(s.o, s.now()) })
}

// Deliver returns when the group is synced. Its file exists when it has all its groups, or is old enough.
func (s *Sink) Deliver(ctx context.Context, g delivery.Group) error {
	lines, err := linesOf(g)
	if err != nil {
		return err
	}

	return s.with(ctx, func(sh *shards) error {
		if err := sh.stage(g.Key, lines, s.now()); err != nil {
			return err
		}

		return sh.closeDue(s.o, s.now())
	})
}

// Flush closes the file that is being filled, if it has a group.
func (s *Sink) Flush(ctx context.Context) error {
	return s.with(ctx, func(sh *shards) error { return sh.close(s.o) })
}

// with calls do with the folder's database. It first completes the file that a killed process was closing.
func (s *Sink) with(ctx context.Context, do func(*shards) error) error {
	if err := os.MkdirAll(s.o.Folder, 0o755); err != nil {
		return fault.Wrap(fault.Unavailable, err, "folder of the sink")
	}

	wait := lockWait
	if until, ok := ctx.Deadline(); ok {
		wait = max(min(wait, time.Until(until)), time.Millisecond)
	}

	db, err := bbolt.Open(filepath.Join(s.o.Folder, database), 0o600, &bbolt.Options{Timeout: wait})
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "open the database of %s (another process may be using it)",
			s.o.Folder)
	}

	sh := &shards{db: db}

	err = sh.recover(s.o)
	if err == nil {
		err = do(sh)
	}

	if e := db.Close(); err == nil {
		err = e
	}

	return fault.Wrap(fault.Unavailable, err, "write to %s", s.o.Folder)
}

// linesOf returns the group as JSON lines, one per sequence.
func linesOf(g delivery.Group) ([]byte, error) {
	var out bytes.Buffer

	for i, s := range g.Siblings {
		state := rollout.State{ID: s.RolloutID, GroupID: g.ID, TaskID: g.TaskID, Outcome: s.Outcome, Reward: &s.Reward}
		if err := formats.WriteLines(&out, state, g.Data[i]); err != nil {
			return nil, err
		}
	}

	return out.Bytes(), nil
}
