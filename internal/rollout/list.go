package rollout

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Values of Filter.Status; an empty status selects both.
const (
	StatusRunning = "running"
	StatusDone    = "done"
)

// Filter selects rollouts; empty fields select all.
type Filter struct {
	// StatusRunning or StatusDone
	Status  string
	TaskID  string
	GroupID string
	Owner   string
	Model   string
	Outcome Outcome

	// begin of the id
	IDPrefix string

	// Query selects rollouts that have ended by words of their transcripts, see MaxQuery
	Query string

	// bounds of the reward, both included; nil: none. A rollout without a reward is in no range.
	MinReward, MaxReward *float64

	// bounds of the start: from Since, before Until; zero: none
	Since, Until time.Time

	// of one page
	Limit int

	// Page.Next of the page before
	Cursor string
	// Detail queries each rollout for its attempt, its turns and why it waits, which a list does not have.
	Detail bool
}

// MaxDetail bounds a page with Filter.Detail.
const MaxDetail = 100

// MaxQuery bounds Filter.Query in bytes.
const MaxQuery = 500

// Validate refuses values that no rollout can have: a misspelled outcome would otherwise give an empty list.
func (f Filter) Validate() error {
	switch {
	case f.Status != "" && f.Status != StatusRunning && f.Status != StatusDone:
		return fault.Field("status", "must be %s or %s, got %q", StatusRunning, StatusDone, f.Status)
	case f.Outcome != "" && !slices.Contains(Outcomes(), f.Outcome):
		return fault.Field("outcome", "must be one of %s; got %q", OutcomeNames(), f.Outcome)
	case f.IDPrefix != "" && CheckID(f.IDPrefix) != nil:
		return fault.Field("id_prefix", "must be the begin of an id, got %q", f.IDPrefix)
	case f.Detail && f.Limit > MaxDetail:
		return fault.Field("limit", "must be at most %d with detail=true, got %d", MaxDetail, f.Limit)
	case f.Query != "" && f.Status == StatusRunning:
		return fault.Field("q", "only rollouts that have ended are searched: leave out status or q")
	case len(f.Query) > MaxQuery:
		return fault.Field("q", "must have at most %d bytes, got %d", MaxQuery, len(f.Query))
	case f.Query != "" && (!utf8.ValidString(f.Query) || !strings.ContainsFunc(f.Query, searchable)):
		return fault.Field("q", "must have a word of letters or digits, got %q", f.Query)
	case !utf8.ValidString(f.TaskID):
		return fault.Field("task_id", "must be UTF-8, got %q", f.TaskID)
	case !utf8.ValidString(f.GroupID):
		return fault.Field("group_id", "must be UTF-8, got %q", f.GroupID)
	case !utf8.ValidString(f.Model):
		return fault.Field("model", "must be UTF-8, got %q", f.Model)
	}

	return nil
}

// searchable reports whether words are made of a character.
func searchable(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// OutcomeNames lists the outcomes for messages.
func OutcomeNames() string {
	names := make([]string, len(Outcomes()))
	for i, o := range Outcomes() {
		names[i] = string(o)
	}

	return strings.Join(names, ", ")
}

// Listed is a rollout in a list. What the list does not know is absent, not 0.
type Listed struct {
	ID      string `json:"rollout_id"`
	TaskID  string `json:"task_id"`
	GroupID string `json:"group_id,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Model   string `json:"model,omitempty"`
	Phase   Phase  `json:"phase"`

	// of a running rollout, the one that last had a sandbox
	Attempt *int `json:"attempt,omitempty"`

	// of the last attempt; of a running rollout only with Filter.Detail
	Turns *int `json:"turns,omitempty"`

	// of a rollout that has ended
	Usage     *Usage `json:"usage,omitempty"`
	SandboxID string `json:"sandbox_id,omitempty"`

	// only with Filter.Detail
	Waiting string `json:"waiting,omitempty"`

	// Match is the text around the first match, only with Filter.Query
	Match string `json:"match,omitempty"`

	// only with Filter.Detail; see State.AsOf
	AsOf       *time.Time `json:"as_of,omitempty"`
	Outcome    Outcome    `json:"outcome,omitempty"`
	Reward     *float64   `json:"reward"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// Done says whether the rollout has ended.
func (l Listed) Done() bool { return l.Phase == PhaseDone }

// Page is a part of a list: running rollouts first, then ended ones, the latest end first. Next is empty on
// the last page.
type Page struct {
	Rollouts []Listed `json:"rollouts"`
	Next     string   `json:"next,omitempty"`
	// Unindexed counts the rollouts that a search cannot find yet, only with Filter.Query.
	Unindexed int `json:"unindexed,omitempty"`
}
