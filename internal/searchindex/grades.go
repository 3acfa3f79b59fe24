package searchindex

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Regraded returns the rollouts that were graded again since a time.
type Regraded func(ctx context.Context, since time.Time) (ids []string, err error)

// lateness bounds how late Regraded knows of a regrade.
const lateness = time.Minute

// Grade is how a rollout is graded now. A regrade may have changed what it ended with.
type Grade struct {
	Outcome rollout.Outcome
	Reward  *float64

	// end of the last attempt; 0: it had none
	EndedAt time.Time
}

// Grades returns the grades of those rollouts that are in the index.
func (x *Index) Grades(ctx context.Context, ids []string) (map[string]Grade, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}

	rows, err := x.db.QueryContext(ctx,
		"SELECT id, n, outcome, reward FROM rollouts WHERE id IN (SELECT value FROM json_each(?))", string(list))
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	grades := map[string]Grade{}

	for rows.Next() {
		var (
			id     string
			end    int64
			g      Grade
			reward sql.Null[float64]
		)
		if err := rows.Scan(&id, &end, &g.Outcome, &reward); err != nil {
			return nil, err
		}

		if reward.Valid {
			g.Reward = &reward.V
		}

		if end > 0 {
			g.EndedAt = time.UnixMicro(end)
		}

		grades[id] = g
	}

	return grades, rows.Err()
}

// Forget removes rollouts from the index. The next update adds those that have a result in the store.
func (x *Index) Forget(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := x.remove(ctx, id); err != nil {
			return fmt.Errorf("forget rollout %s: %w", id, err)
		}
	}

	return nil
}

// Reread reads the grades of rollouts of the index again. Rollouts that the index or the store does not have are left out.
func (x *Index) Reread(ctx context.Context, ids []string) error {
	for _, id := range ids {
		head, err := readHead(ctx, x.store, id)
		if fault.Is(err, fault.NotFound) {
			continue
		}

		if err == nil {
			err = x.setGrade(ctx, id, Grade{Outcome: head.Outcome, Reward: head.Reward})
		}

		if err != nil {
			return fmt.Errorf("read rollout %s again: %w", id, err)
		}
	}

	return nil
}

// setGrade changes the grade of a rollout and nothing else: the list has more of it than its result.
func (x *Index) setGrade(ctx context.Context, id string, g Grade) error {
	return x.change(ctx, func(tx *sql.Tx) error {
		var (
			listed []byte
			l      rollout.Listed
		)

		err := tx.QueryRowContext(ctx, "SELECT listed FROM rollouts WHERE id = ?", id).Scan(&listed)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}

		if err == nil {
			err = json.Unmarshal(listed, &l)
		}

		if err != nil {
			return err
		}

		l.Outcome, l.Reward = g.Outcome, g.Reward

		if listed, err = json.Marshal(l); err != nil {
			return err
		}

		_, err = tx.ExecContext(ctx, "UPDATE rollouts SET outcome = ?, reward = ?, listed = ? WHERE id = ?",
			string(l.Outcome), l.Reward, listed, id)

		return err
	})
}
