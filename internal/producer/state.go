package producer

import (
	"slices"
	"time"
)

// Phase says what a producer does.
type Phase string

const (
	Running  Phase = "running"
	Paused   Phase = "paused"   // starts no groups; those that run go on
	Draining Phase = "draining" // starts no groups and ends when all are delivered
	Aborting Phase = "aborting" // its groups are being aborted
	Done     Phase = "done"
)

// Outcome says how a producer ended.
type Outcome string

const (
	Completed Outcome = "completed" // all tasks or all steps are done
	Stopped   Outcome = "stopped"   // asked to stop; all its groups were delivered
	Aborted   Outcome = "aborted"
	Failed    Outcome = "failed" // the workflow itself failed or was terminated
)

// State is the answer to the query "state" of a producer, its result, and what its next run continues from.
type State struct {
	ID         string         `json:"producer_id"`
	Owner      string         `json:"owner,omitempty"`
	Name       string         `json:"name,omitempty"` // of the task set
	Sink       string         `json:"sink"`
	GroupSize  int            `json:"group_size"`
	Phase      Phase          `json:"phase"`
	Outcome    Outcome        `json:"outcome,omitempty"`
	Error      string         `json:"error,omitempty"`
	Waiting    string         `json:"waiting,omitempty"` // why no group starts, or why none did before all tasks had started
	Bounds     Bounds         `json:"bounds"`
	Cursor     Cursor         `json:"cursor"`
	Step       int            `json:"step"` // of training
	Counts     Counts         `json:"counts"`
	Running    []RunningGroup `json:"running"`
	Outbox     []Finished     `json:"outbox"` // finished groups whose delivery has not ended, oldest first
	Again      []Cursor       `json:"again"`  // tasks whose group was lost and is to run again
	Evaluation *Evaluation    `json:"evaluation,omitempty"`
	Evaluated  []Evaluation   `json:"evaluated"` // the last ones, oldest first
	StartedAt  time.Time      `json:"started_at"`
	FinishedAt *time.Time     `json:"finished_at,omitempty"`
	Runs       int            `json:"runs"` // runs of the workflow; each continues from the one before
}

// Done says whether the producer has ended.
func (s State) Done() bool { return s.Phase == Done }

// InFlight counts the rollouts of running groups that have not ended.
func (s State) InFlight() int {
	n := 0
	for i := range s.Running {
		n += s.Running[i].Left
	}
	return n
}

// Find returns the index of a running group, -1 when none has that id.
func (s State) Find(groupID string) int {
	return slices.IndexFunc(s.Running, func(g RunningGroup) bool { return g.ID == groupID })
}

// Cursor is a place in the sequence of groups of a producer. A task that is tried again keeps its number.
type Cursor struct {
	Number int64 `json:"number"` // from 0; number / tasks is the epoch
	Try    int   `json:"try,omitempty"`
}

// Counts are sums since the start.
type Counts struct {
	Started   int64          `json:"started"`            // groups, evaluations apart
	Delivered int64          `json:"delivered"`          // groups that the sink acknowledged
	Marked    int64          `json:"marked,omitempty"`   // delivered groups that GroupFilter.MarkStale has marked
	Skipped   int64          `json:"skipped"`            // groups that are no data for the sink
	Refused   int64          `json:"refused"`            // groups that the sink refused for good
	Filtered  map[string]int `json:"filtered,omitempty"` // groups that were not delivered, by reason
	Failed    int64          `json:"failed"`             // groups without a reward: a broken task, or lost too often
	Aborted   int64          `json:"aborted"`
	Again     int64          `json:"again"`    // groups that were lost to infrastructure and run again
	Rollouts  int64          `json:"rollouts"` // with a reward, of delivered groups
	Replaced  int64          `json:"replaced"` // rollouts that were lost and replaced within their group
}

// Reasons why a group is filtered.
const (
	FilteredEqualScores = "equal_scores"
	FilteredTooLong     = "too_long"
	FilteredTooFew      = "too_few"
	FilteredStale       = "stale"
	FilteredMixed       = "mixed_versions"
)

// RunningGroup is a group of a producer that has not ended.
type RunningGroup struct {
	ID         string    `json:"group_id"`
	Cursor     Cursor    `json:"cursor"`
	Left       int       `json:"left"`           // rollouts that have not ended
	Eval       bool      `json:"eval,omitempty"` // of the evaluation that runs
	StartedAt  time.Time `json:"started_at"`
	ReportedAt time.Time `json:"reported_at"`
}

// Finished is a group that has ended and is not yet delivered.
type Finished struct {
	GroupID  string `json:"group_id"`
	Rollouts int    `json:"rollouts"` // with a reward
}

// Listed is a producer in a list, which has no counts and no groups.
type Listed struct {
	ID         string     `json:"producer_id"`
	Owner      string     `json:"owner,omitempty"`
	Name       string     `json:"name,omitempty"` // of the task set
	Phase      Phase      `json:"phase"`
	Outcome    Outcome    `json:"outcome,omitempty"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// Page is a part of a list of producers. Next is empty on the last one.
type Page struct {
	Producers []Listed `json:"producers"`
	Next      string   `json:"next,omitempty"`
}
