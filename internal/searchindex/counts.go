package searchindex

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"sort"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Counts counts the rollouts that a filter selects and that have ended.
func (x *Index) Counts(ctx context.Context, f rollout.Filter) (c rollout.Counts, err error) {
	// all of them, whatever the page
	f.Cursor, f.Sort = "", ""

	err = x.selectRollouts(ctx, f, func(ctx context.Context, s selection) error {
		c, err = x.counts(ctx, s)
		return err
	})
	c.Unindexed = int(x.missing.Load())

	return c, err
}

func (x *Index) counts(ctx context.Context, s selection) (rollout.Counts, error) {
	c := rollout.Counts{Outcomes: map[rollout.Outcome]int{}}

	all, err := x.readEnded(ctx, s)
	if err != nil {
		return c, err
	}

	var rewards, turns, durations []float64

	for _, r := range all {
		c.Rollouts++
		c.Outcomes[r.outcome]++

		rewards, turns = appendKnown(rewards, r.reward), appendKnown(turns, r.turns)
		durations = appendKnown(durations, r.seconds())
	}

	c.Rewards, c.Turns, c.Durations = evenBins(rewards), roundBins(turns), roundBins(durations)

	l := lineageOf(all)
	c.Versions = l.versions(all)
	c.Periods = periods(all, l)

	return c, nil
}

// endedRollout are the numbers of a rollout that has ended.
type endedRollout struct {
	outcome rollout.Outcome
	reward  sql.Null[float64]
	turns   sql.Null[float64]
	tokens  sql.Null[int64]

	// in microseconds
	duration sql.Null[float64]
	started  int64
	course   course
}

// end is in microseconds.
func (e endedRollout) end() int64 { return e.started + int64(e.duration.V) }

func (e endedRollout) seconds() sql.Null[float64] {
	return sql.Null[float64]{
		V:     time.Duration(e.duration.V * float64(time.Microsecond)).Seconds(),
		Valid: e.duration.Valid,
	}
}

func (x *Index) readEnded(ctx context.Context, s selection) (all []endedRollout, err error) {
	rows, err := x.db.QueryContext(
		ctx,
		s.query("r.outcome, r.reward, r.turns, r.tokens, r.duration, r.started, r.course"),
		s.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	for rows.Next() {
		var (
			e      endedRollout
			course []byte
		)
		if err := rows.Scan(&e.outcome, &e.reward, &e.turns, &e.tokens, &e.duration, &e.started, &course); err != nil {
			return nil, err
		}

		if err := json.Unmarshal(course, &e.course); err != nil {
			return nil, err
		}

		all = append(all, e)
	}

	return all, rows.Err()
}

func appendKnown(all []float64, n sql.Null[float64]) []float64 {
	if n.Valid {
		all = append(all, n.V)
	}

	return all
}

// maxBins bounds the bars of an even histogram.
const maxBins = 10

// evenBins has a bar for each number, or bars of the same width if there are many numbers.
func evenBins(all []float64) []rollout.Bin {
	if len(all) == 0 {
		return []rollout.Bin{}
	}

	slices.Sort(all)

	least, width := all[0], (all[len(all)-1]-all[0])/maxBins
	if few := binsOf(all, func(n float64) float64 { return n }); len(few) <= maxBins {
		return few
	}

	return binsOf(all, func(n float64) float64 { return float64(min(int((n-least)/width), maxBins-1)) })
}

// roundBins has bars that begin at 0, 1, 2, 5, 10, 20, 50 and so on: turns and durations differ by orders of magnitude.
func roundBins(all []float64) []rollout.Bin {
	slices.Sort(all)

	edges := []float64{0}
	for power := 1.0; len(all) > 0 && edges[len(edges)-1] <= all[len(all)-1]; power *= 10 {
		edges = append(edges, power, 2*power, 5*power)
	}

	return binsOf(all, func(n float64) float64 {
		return float64(sort.Search(len(edges), func(i int) bool { return edges[i] > n }))
	})
}

// binsOf joins sorted numbers of the same bar.
func binsOf(all []float64, bar func(float64) float64) []rollout.Bin {
	bins := []rollout.Bin{}

	for i, n := range all {
		if i == 0 || cmp.Compare(bar(n), bar(all[i-1])) != 0 {
			bins = append(bins, rollout.Bin{Min: n})
		}

		last := &bins[len(bins)-1]
		last.Max, last.Count = n, last.Count+1
	}

	return bins
}
