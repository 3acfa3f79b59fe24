package rollout

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// What a filter's status may be; none is both.
const (
	StatusRunning = "running"
	StatusDone    = "done"
)

// Filter selects rollouts; empty fields select all.
type Filter struct {
	Status  string // StatusRunning or StatusDone
	TaskID  string
	GroupID string
	Owner   string
	Outcome Outcome
	Limit   int    // of one page
	Cursor  string // Page.Next of the page before
	// Detail has each rollout asked for its attempt, its turns and why it waits, which a list has not.
	Detail bool
}

// MaxDetail bounds a page with Filter.Detail.
const MaxDetail = 100

// Validate refuses what no rollout can have: a misspelled outcome would list nothing, as if there were none of it.
func (f Filter) Validate() error {
	switch {
	case f.Status != "" && f.Status != StatusRunning && f.Status != StatusDone:
		return fault.Field("status", "want %s or %s, got %q", StatusRunning, StatusDone, f.Status)
	case f.Outcome != "" && !slices.Contains(Outcomes(), f.Outcome):
		return fault.Field("outcome", "want one of %s, got %q", OutcomeNames(), f.Outcome)
	case f.Detail && f.Limit > MaxDetail:
		return fault.Field("limit", "want at most %d with detail, got %d", MaxDetail, f.Limit)
	case !utf8.ValidString(f.TaskID):
		return fault.Field("task_id", "want UTF-8, got %q", f.TaskID)
	case !utf8.ValidString(f.GroupID):
		return fault.Field("group_id", "want UTF-8, got %q", f.GroupID)
	}
	return nil
}

// OutcomeNames lists the outcomes for people.
func OutcomeNames() string {
	names := make([]string, len(Outcomes()))
	for i, o := range Outcomes() {
		names[i] = string(o)
	}
	return strings.Join(names, ", ")
}

// Page is a part of a list: those that run first, then by their end, latest first. Next is empty on the last one.
type Page struct {
	Rollouts []State `json:"rollouts"`
	Next     string  `json:"next,omitempty"`
}
