package searchindex

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// selection is what a filter selects, as SQL. The terms are constants; what a client wrote is in args.
type selection struct {
	// joins the texts
	searched bool
	terms    []string
	args     []any
}

func (s *selection) add(term string, args ...any) {
	s.terms, s.args = append(s.terms, term), append(s.args, args...)
}

func selectionOf(f rollout.Filter) selection {
	s := selection{terms: []string{"1"}}

	if f.Query != "" {
		s.searched = true
		s.add("texts MATCH ?", match(f.Query))
	}

	// only rollouts that have ended are in the index
	if f.Status == rollout.StatusRunning {
		s.add("0")
	}

	for _, c := range []struct{ column, want string }{
		{"task_id", f.TaskID}, {"group_id", f.GroupID}, {"owner", f.Owner}, {"model", f.Model}, {"agent", f.Agent},
		{"endpoint", f.Endpoint}, {"outcome", string(f.Outcome)}, {"version", f.ModelVersion},
	} {
		if c.want != "" {
			s.add("r."+c.column+" = ?", c.want)
		}
	}

	if f.IDPrefix != "" {
		s.add("instr(r.id, ?) = 1", f.IDPrefix)
	}

	if f.ProducerID != "" {
		s.addProducer(f.ProducerID)
	}

	if len(f.IDs) > 0 {
		s.add("r.id IN (?"+strings.Repeat(", ?", len(f.IDs)-1)+")", anys(f.IDs)...)
	}

	addBound(&s, "r.reward >= ?", f.MinReward)
	addBound(&s, "r.reward <= ?", f.MaxReward)
	addBound(&s, "r.turns >= ?", f.MinTurns)
	addBound(&s, "r.turns <= ?", f.MaxTurns)

	if f.MinDuration != nil {
		s.add("r.duration >= ?", f.MinDuration.Microseconds())
	}

	if f.MaxDuration != nil {
		s.add("r.duration <= ?", f.MaxDuration.Microseconds())
	}

	if !f.Since.IsZero() {
		s.add("r.started >= ?", f.Since.UnixMicro())
	}

	if !f.EndedSince.IsZero() {
		s.add("r.n >= ?", f.EndedSince.UnixMicro())
	}

	if !f.Until.IsZero() {
		s.add("r.started < ?", f.Until.UnixMicro())
	}

	return s
}

// addProducer selects the rollouts of a producer, as producer.Owns does: by what follows the producer's id in that of the
// group, a number with or without a try, or the step and the task of an evaluation.
func (s *selection) addProducer(id string) {
	begin := id + "-"
	rest := len(begin) + 1

	s.add("instr(r.group_id, ?) = 1", begin)
	s.add("(substr(r.group_id, ?) GLOB '[0-9]*' AND instr(substr(r.group_id, ?), '-') = 0"+
		" OR substr(r.group_id, ?) GLOB 'e[0-9]*-[0-9]*' AND substr(r.group_id, ?) NOT GLOB '*-*-*')", rest, rest, rest, rest)
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}

	return all
}

func addBound[T any](s *selection, term string, bound *T) {
	if bound != nil {
		s.add(term, *bound)
	}
}

// query returns a SELECT of columns without its order.
func (s selection) query(columns string) string {
	from := "rollouts AS r"
	if s.searched {
		// SQLite would else look up the text of each rollout
		from = "texts CROSS JOIN rollouts AS r ON r.n = texts.rowid"
	}

	return "SELECT " + columns + " FROM " + from + " WHERE " + strings.Join(s.terms, " AND ")
}

// snippet is the column of the text around the match.
func (s selection) snippet() string {
	if !s.searched {
		return "''"
	}

	return "snippet(texts, 0, '', '', '…', 24)"
}

// after leaves out what a list in that order has up to a cursor, which is the number of a rollout.
func (s selection) after(last int64, o order) selection {
	s.terms, s.args = slices.Clone(s.terms), slices.Clone(s.args)

	switch {
	case last == 0:
	case o.column == "":
		s.add(s.number()+" < ?", last)
	default:
		than := ">"
		if o.down {
			than = "<"
		}

		of := "(SELECT " + o.column + " FROM rollouts AS r WHERE r.n = ?)"
		s.add("CASE WHEN "+of+" IS NULL THEN "+o.column+" IS NULL AND r.n < ? ELSE "+o.column+" IS NULL OR "+
			o.column+" "+than+" "+of+" OR "+o.column+" = "+of+" AND r.n < ? END", last, last, last, last, last)
	}

	return s
}

// order is that of a list. Rollouts without the value are last, and those with the same value by their end, the latest
// first.
type order struct {
	// "": by the end alone
	column string
	down   bool
}

// columns are the columns of rollout.SortKeys.
func columns() map[string]string {
	return map[string]string{
		"rollout_id": "r.id", "task_id": "nullif(r.task_id, '')", "group_id": "nullif(r.group_id, '')",
		"agent": "nullif(r.agent, '')", "model": "nullif(r.model, '')", "endpoint": "nullif(r.endpoint, '')",
		"outcome": "r.outcome", "reward": "r.reward", "turns": "r.turns", "completion_tokens": "r.tokens",
		"duration_s": "r.duration", "started_at": "r.started",
	}
}

func orderOf(sort string) order {
	key, down := strings.CutPrefix(sort, "-")
	return order{columns()[key], down}
}

// by is the clause of the order.
func (o order) by(s selection) string {
	switch {
	case o.column == "":
		return " ORDER BY " + s.number() + " DESC"
	case o.down:
		return " ORDER BY " + o.column + " DESC NULLS LAST, r.n DESC"
	default:
		return " ORDER BY " + o.column + " ASC NULLS LAST, r.n DESC"
	}
}

// number is the column by which the rows are read without sorting them.
func (s selection) number() string {
	if s.searched {
		return "texts.rowid"
	}

	return "r.n"
}

// cursorOf reads a cursor; 0: none was given.
func cursorOf(text string) (last int64, err error) {
	if text == "" {
		return 0, nil
	}

	last, err = strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fault.Field("cursor", "not a cursor returned by this list")
	}

	return last, nil
}
