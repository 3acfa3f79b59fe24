package searchindex

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// updatePause is the least time between two updates.
	updatePause = 10 * time.Second
	// listingShare bounds the time for listing the store: at most 1/20 of all time.
	listingShare = 20
	// longestRetry is the longest time until a rollout without a result is looked at again.
	longestRetry = 5 * time.Minute
)

// unfinished is a rollout without a result. A long one is looked at less often.
type unfinished struct{ since, looked, next time.Time }

// Run follows the store until ctx ends. A failure is logged, and the next update goes on where it ended.
func (x *Index) Run(ctx context.Context, regraded Regraded) error {
	// end of the regrades that were followed; those before the start are looked for as well
	var followedUntil time.Time

	for {
		began := time.Now()

		err := x.Update(ctx)
		if err == nil {
			err = x.follow(ctx, regraded, followedUntil)
		}

		if err == nil {
			followedUntil = began.Add(-lateness)
		} else if ctx.Err() == nil {
			x.log.WarnContext(ctx, "the index of transcripts is behind", "rollouts", x.missing.Load(), "error", err)
		}

		if err := clock.Sleep(ctx, max(updatePause, listingShare*x.listing)); err != nil {
			return err
		}
	}
}

// follow reads the rollouts again that were graded again since a time.
func (x *Index) follow(ctx context.Context, regraded Regraded, since time.Time) error {
	ids, err := regraded(ctx, since)
	if err != nil {
		return fmt.Errorf("list regrades: %w", err)
	}

	return x.Reread(ctx, ids)
}

// Update adds the rollouts that are in the store but not in the index, and removes those that are no longer in the
// store. Only one may run at a time.
func (x *Index) Update(ctx context.Context) error {
	known, err := x.indexedIDs(ctx)
	if err != nil {
		return err
	}

	var fresh []string

	began := time.Now()

	for id, err := range x.store.Folders(ctx, "rollouts/") {
		if err != nil {
			return err
		}

		if !known[id] && time.Now().After(x.unfinished[id].next) {
			fresh = append(fresh, id)
		}

		delete(known, id)
	}

	x.listing = time.Since(began)
	x.missing.Store(int64(len(fresh)))
	x.listed.Store(true)

	for id := range known {
		if err := x.remove(ctx, id); err != nil {
			return err
		}
	}

	added := x.addAll(ctx, fresh)
	if added == nil {
		x.until.Store(x.completeUntil(began).UnixMicro())
	}

	return errors.Join(added, x.shrink(ctx))
}

// completeUntil is the time before which no rollout ended that an update has not added, which listed the store at a
// time. Rollouts without a result are not looked at by each update.
func (x *Index) completeUntil(listed time.Time) time.Time {
	for _, u := range x.unfinished {
		if u.looked.Before(listed) {
			listed = u.looked
		}
	}

	return listed
}

// indexedIDs returns the ids of the rollouts of the index.
func (x *Index) indexedIDs(ctx context.Context) (map[string]bool, error) {
	rows, err := x.db.QueryContext(ctx, "SELECT id FROM rollouts")
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	ids := map[string]bool{}

	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}

		ids[id] = true
	}

	return ids, rows.Err()
}

// addAll adds rollouts. One that cannot be read does not keep the others from being found.
func (x *Index) addAll(ctx context.Context, ids []string) error {
	var failures []error

	waiting := map[string]unfinished{}

	for _, id := range ids {
		d, err := read(ctx, x.store, id)

		switch {
		case fault.Is(err, fault.NotFound):
			waiting[id] = x.later(id)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failures = append(failures, fmt.Errorf("rollout %s: %w", id, err))
			waiting[id] = x.later(id)
		default:
			if err := errors.Join(x.addDocument(ctx, d), x.shrink(ctx)); err != nil {
				return fmt.Errorf("add rollout %s: %w", id, err)
			}
		}

		x.missing.Add(-1)
	}

	x.missing.Store(int64(len(failures)))

	for id, was := range x.unfinished {
		// not looked at this time
		if time.Now().Before(was.next) {
			waiting[id] = was
		}
	}

	x.unfinished = waiting

	return errors.Join(failures[:min(len(failures), 1)]...)
}

// later says when a rollout is looked at again.
func (x *Index) later(id string) unfinished {
	now, was := time.Now(), x.unfinished[id]
	if was.since.IsZero() {
		was.since = now
	}

	was.looked = now
	was.next = now.Add(min(now.Sub(was.since)/4, longestRetry))

	return was
}

func (x *Index) addDocument(ctx context.Context, d *document) error {
	listed, err := json.Marshal(d.listed)
	if err != nil {
		return err
	}

	course, err := json.Marshal(d.course)
	if err != nil {
		return err
	}

	return x.change(ctx, func(tx *sql.Tx) error {
		var n int64

		l := d.listed
		// another process may have added it
		err := tx.QueryRowContext(ctx, `
			INSERT INTO rollouts (n, id, task_id, group_id, owner, model, agent, endpoint, outcome, reward, turns, tokens, duration, started, version, course, listed)
			SELECT CASE WHEN EXISTS (SELECT 1 FROM rollouts WHERE n = ?1) THEN (
				SELECT min(n) + 1 FROM rollouts AS r
				WHERE n >= ?1 AND NOT EXISTS (SELECT 1 FROM rollouts WHERE n = r.n + 1)
			) ELSE ?1 END, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17
			WHERE NOT EXISTS (SELECT 1 FROM rollouts WHERE id = ?2) RETURNING n`,
			l.FinishedAt.UnixMicro(), l.ID, l.TaskID, l.GroupID, l.Owner, l.Model, l.Agent, l.Endpoint,
			string(l.Outcome), l.Reward, l.Turns, l.Usage.CompletionTokens, durationOf(l), l.StartedAt.UnixMicro(),
			d.course.version(), course, listed,
		).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}

		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT INTO texts (rowid, text) VALUES (?, ?)", n, d.text.String())
		}

		return err
	})
}

// durationOf returns how long a rollout took, in microseconds; nil: it never began.
func durationOf(l rollout.Listed) *int64 {
	if l.StartedAt.IsZero() {
		return nil
	}

	return new(l.FinishedAt.Sub(l.StartedAt).Microseconds())
}

func (x *Index) remove(ctx context.Context, id string) error {
	return x.change(ctx, func(tx *sql.Tx) error {
		for _, statement := range []string{
			"DELETE FROM texts WHERE rowid = (SELECT n FROM rollouts WHERE id = ?)", "DELETE FROM rollouts WHERE id = ?",
		} {
			if _, err := tx.ExecContext(ctx, statement, id); err != nil {
				return err
			}
		}

		return nil
	})
}

func (x *Index) change(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()

	if err := do(tx); err != nil {
		return err
	}

	return tx.Commit()
}
