package searchindex

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// searchBound bounds a search.
const searchBound = 20 * time.Second

// Search returns ended rollouts that have all words of the filter's query and are what its other fields select, the
// latest end first. Of each it has the text around the first match. While the store has not been listed yet it is a
// fault.Unavailable.
func (x *Index) Search(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	if err := f.Validate(); err != nil {
		return rollout.Page{}, err
	}

	if !x.listed.Load() {
		return rollout.Page{}, fault.New(fault.Unavailable, "the server has just begun to read its transcripts: try again")
	}

	where, args, err := conditions(f)
	if err != nil {
		return rollout.Page{}, err
	}

	ctx, cancel := context.WithTimeoutCause(ctx, searchBound,
		fault.New(fault.Timeout, "the search took more than %s: use rarer words or more filters", searchBound))
	defer cancel()

	page, err := x.page(ctx, where, args, f.Limit)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}

	page.Unindexed = int(x.missing.Load())

	return page, err
}

// page reads a page. The rows are read in the order of the index, so that the rest of a long list costs nothing.
func (x *Index) page(ctx context.Context, where []string, args []any, limit int) (rollout.Page, error) {
	page := rollout.Page{Rollouts: []rollout.Listed{}}

	//nolint:gosec // the conditions are constants; what a client wrote is in args
	rows, err := x.db.QueryContext(ctx, `SELECT r.n, r.listed, snippet(texts, 0, '', '', '…', 24)
		FROM texts CROSS JOIN rollouts AS r ON r.n = texts.rowid WHERE `+strings.Join(where, " AND ")+`
		ORDER BY texts.rowid DESC LIMIT ?`, append(args, limit+1)...)
	if err != nil {
		return page, err
	}
	defer rows.Close()

	var last int64

	for rows.Next() {
		if len(page.Rollouts) == limit {
			page.Next = strconv.FormatInt(last, 10)
			break
		}

		var (
			listed []byte
			l      rollout.Listed
		)
		if err := rows.Scan(&last, &listed, &l.Match); err != nil {
			return page, err
		}

		if err := json.Unmarshal(listed, &l); err != nil {
			return page, err
		}

		page.Rollouts = append(page.Rollouts, l)
	}

	return page, rows.Err()
}

// conditions are the terms of a filter, with their arguments.
func conditions(f rollout.Filter) (where []string, args []any, err error) {
	is := func(term string, arg any) { where, args = append(where, term), append(args, arg) }

	is("texts MATCH ?", match(f.Query))

	for column, want := range map[string]string{
		"task_id": f.TaskID, "group_id": f.GroupID, "owner": f.Owner, "model": f.Model, "outcome": string(f.Outcome),
	} {
		if want != "" {
			is("r."+column+" = ?", want)
		}
	}

	if f.IDPrefix != "" {
		is("instr(r.id, ?) = 1", f.IDPrefix)
	}

	if f.MinReward != nil {
		is("r.reward >= ?", *f.MinReward)
	}

	if f.MaxReward != nil {
		is("r.reward <= ?", *f.MaxReward)
	}

	if !f.Since.IsZero() {
		is("r.started >= ?", f.Since.UnixMicro())
	}

	if !f.Until.IsZero() {
		is("r.started < ?", f.Until.UnixMicro())
	}

	if f.Cursor != "" {
		last, err := strconv.ParseInt(f.Cursor, 10, 64)
		if err != nil {
			return nil, nil, fault.Field("cursor", "not a cursor returned by this list")
		}

		is("texts.rowid < ?", last)
	}

	return where, args, nil
}

// match returns the expression of FTS5 for a query: all its words, where "a phrase" is one and a word with * at its end
// is the begin of words. Each is quoted, so that nothing else of a query is syntax.
func match(query string) string {
	var words []string

	for i, part := range strings.Split(query, `"`) {
		if i%2 == 1 {
			words = append(words, quote(part))
			continue
		}

		for word := range strings.FieldsSeq(part) {
			begin, isBegin := strings.CutSuffix(word, "*")

			word = quote(begin)
			if isBegin && word != "" {
				word += "*"
			}

			words = append(words, word)
		}
	}

	return strings.Join(words, " ")
}

// quote returns a phrase of FTS5; "": it has no letter and no digit, by which something could be found.
func quote(words string) string {
	if !strings.ContainsFunc(words, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		return ""
	}

	return `"` + strings.ReplaceAll(words, "\x00", " ") + `"`
}
