package producer

import (
	"slices"
	"time"
)

// Phase says what a producer does.
type Phase string

const (
	Running Phase = "running"

	// starts no groups; those that run go on
	Paused Phase = "paused"

	// starts no groups and ends when all are delivered
	Draining Phase = "draining"

	// its groups are being aborted
	Aborting Phase = "aborting"
	Done     Phase = "done"
)

// Outcome says how a producer ended.
type Outcome string

const (
	// all tasks or all steps are done
	Completed Outcome = "completed"

	// asked to stop; all its groups were delivered
	Stopped Outcome = "stopped"
	Aborted Outcome = "aborted"

	// the workflow itself failed or was terminated
	Failed Outcome = "failed"
)

// State is the answer to the query "state" of a producer, its result, and what its next run continues from.
type State struct {
	ID    string `json:"producer_id"`
	Owner string `json:"owner,omitempty"`

	// name of the task set
	Name      string  `json:"name,omitempty"`
	Sink      string  `json:"sink"`
	GroupSize int     `json:"group_size"`
	Phase     Phase   `json:"phase"`
	Outcome   Outcome `json:"outcome,omitempty"`
	Error     string  `json:"error,omitempty"`

	// why no group starts, or why none did before all tasks had started
	Waiting string `json:"waiting,omitempty"`
	Bounds  Bounds `json:"bounds"`
	Cursor  Cursor `json:"cursor"`

	// the trainer's step
	Step    int            `json:"step"`
	Counts  Counts         `json:"counts"`
	Running []RunningGroup `json:"running"`

	// finished groups whose delivery has not ended, oldest first
	Outbox []Finished `json:"outbox"`

	// tasks whose group was lost and is to run again
	Again      []Cursor    `json:"again"`
	Evaluation *Evaluation `json:"evaluation,omitempty"`

	// the last ones, oldest first
	Evaluated  []Evaluation `json:"evaluated"`
	StartedAt  time.Time    `json:"started_at"`
	FinishedAt *time.Time   `json:"finished_at,omitempty"`

	// runs of the workflow; each continues from the one before
	Runs int `json:"runs"`
}

// Done reports whether the producer has ended.
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
	// from 0; number / tasks is the epoch
	Number int64 `json:"number"`
	Try    int   `json:"try,omitempty"`
}

// Counts are sums since the start.
type Counts struct {
	// groups, evaluations apart
	Started int64 `json:"started"`

	// groups that the sink acknowledged
	Delivered int64 `json:"delivered"`

	// delivered groups that GroupFilter.MarkStale has marked
	Marked int64 `json:"marked,omitempty"`

	// groups that are no data for the sink
	Skipped int64 `json:"skipped"`

	// groups that the sink refused for good
	Refused int64 `json:"refused"`

	// groups that were not delivered, by reason
	Filtered map[string]int `json:"filtered,omitempty"`

	// groups without a reward: a broken task, or lost too often
	Failed  int64 `json:"failed"`
	Aborted int64 `json:"aborted"`

	// groups that were lost to infrastructure and run again
	Again int64 `json:"again"`

	// rollouts with a reward, of delivered groups
	Rollouts int64 `json:"rollouts"`

	// rollouts that were lost and replaced within their group
	Replaced int64 `json:"replaced"`
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
	ID     string `json:"group_id"`
	Cursor Cursor `json:"cursor"`

	// rollouts that have not ended
	Left int `json:"left"`

	// the group is of the evaluation that runs
	Eval       bool      `json:"eval,omitempty"`
	StartedAt  time.Time `json:"started_at"`
	ReportedAt time.Time `json:"reported_at"`
}

// Finished is a group that has ended and is not yet delivered.
type Finished struct {
	GroupID string `json:"group_id"`

	// number of rollouts with a reward
	Rollouts int `json:"rollouts"`
}

// Listed is a producer in a list, which has no counts and no groups.
type Listed struct {
	ID    string `json:"producer_id"`
	Owner string `json:"owner,omitempty"`

	// name of the task set
	Name       string     `json:"name,omitempty"`
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
