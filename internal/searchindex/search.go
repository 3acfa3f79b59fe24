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
// latest end first or in the filter's order. With a query, each has the text around the first match. While the store
// has not been listed yet it is a fault.Unavailable.
func (x *Index) Search(ctx context.Context, f rollout.Filter) (page rollout.Page, err error) {
	err = x.selectRollouts(ctx, f, func(ctx context.Context, s selection) error {
		last, err := cursorOf(f.Cursor)
		if err != nil {
			return err
		}

		order := orderOf(f.Sort)
		page, err = x.page(ctx, s.after(last, order), order, f.Limit)

		return err
	})

	page.Unindexed = int(x.missing.Load())
	if until := x.until.Load(); until > 0 {
		page.IndexedUntil = new(time.UnixMicro(until).UTC())
	}

	return page, err
}

// selectRollouts calls do with what a filter selects, within the bound of a search.
func (x *Index) selectRollouts(ctx context.Context, f rollout.Filter, do func(context.Context, selection) error) error {
	if err := f.Validate(); err != nil {
		return err
	}

	if !x.listed.Load() {
		return fault.New(fault.Unavailable, "the server has just begun to read its rollouts: try again")
	}

	ctx, cancel := context.WithTimeoutCause(ctx, searchBound,
		fault.New(fault.Timeout, "the search took more than %s: use rarer words or more filters", searchBound))
	defer cancel()

	err := do(ctx, selectionOf(f))
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}

	return err
}

// page reads a page. In the order of the index the rest of a long list costs nothing.
func (x *Index) page(ctx context.Context, s selection, o order, limit int) (rollout.Page, error) {
	page := rollout.Page{Rollouts: []rollout.Listed{}}

	rows, err := x.db.QueryContext(
		ctx,
		s.query("r.n, r.listed, "+s.snippet())+o.by(s)+" LIMIT ?",
		append(s.args, limit+1)...)
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

// match returns the expression of FTS5 for a query: all its words, where "a phrase" is one and a word with * at its end
// is a prefix of words. Each is quoted, so that nothing else of a query is syntax.
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
