package rollout

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Bounds of a producer.
const (
	maxProducerID  = 32 // leaves room in a group's id for its number
	maxConcurrency = 4096
	maxOffpolicy   = 1000
	maxTrainSteps  = 1 << 31
	maxEpochs      = 1 << 20
	// MaxProducerGroups bounds the groups of a producer that run at once: Temporal bounds the children of a workflow to 2,000.
	MaxProducerGroups = 1000
)

// ProducerSpec asks for groups of a task set, as many at once as a sink can take. It is the input of ProducerWorkflow and therefore part of
// stored histories: fields are added, never renamed or removed.
type ProducerSpec struct {
	ID    string `json:"id"`
	Owner string `json:"owner,omitempty"`
	Name  string `json:"name,omitempty"` // of the task set, for people
	Tasks SetRef `json:"tasks"`
	// SealedKey is the API key of the model endpoint, which the stored tasks do not have.
	SealedKey string `json:"sealed_key,omitempty"`

	GroupSize       int           `json:"group_size"`
	MaxReplacements int           `json:"max_replacements"` // of one group; see GroupSpec
	GroupDeadline   time.Duration `json:"group_deadline,omitempty"`
	Sink            string        `json:"sink"`

	Bounds    ProducerBounds `json:"bounds"`
	Shuffle   *uint64        `json:"shuffle,omitempty"`    // seed of the order, another one in each epoch; nil: the order of the set
	Epochs    int            `json:"epochs,omitempty"`     // 0: without bound
	BatchSize int            `json:"batch_size,omitempty"` // rollouts of a training step where the sink does not give a number; 0: those of a group
	Filter    GroupFilter    `json:"filter"`
	Eval      *EvalSpec      `json:"eval,omitempty"`

	// From is the state to continue from; nil: this is the first run of the workflow.
	From *ProducerState `json:"from,omitempty"`
}

// ProducerBounds may be changed while a producer runs.
type ProducerBounds struct {
	Concurrency int `json:"concurrency"` // rollouts at once; a group starts while there is room for one of its rollouts
	// MaxBatchesOffpolicy bounds the batches that are produced ahead of the trainer: running, undelivered and queued; 0: no bound.
	MaxBatchesOffpolicy int `json:"max_batches_offpolicy"`
	TotalSteps          int `json:"total_steps,omitempty"` // of the trainer; 0: what the sink says, or no bound
}

// GroupFilter says which finished groups are not delivered. Each is counted by its reason.
type GroupFilter struct {
	EqualScores bool `json:"equal_scores,omitempty"` // those of two rollouts or more whose rewards are all equal: they have no advantage
	MaxTokens   int  `json:"max_tokens,omitempty"`   // those with a training sequence of this many tokens or more; 0: none
	MinRollouts int  `json:"min_rollouts,omitempty"` // those with fewer rewards; 0: the sink decides
	// MaxVersionLag drops those with a trained token sampled by weights more than this many versions behind the trainer's step; nil: none.
	MaxVersionLag *int `json:"max_version_lag,omitempty"`
	// MarkStale delivers those groups nevertheless, marked; see DeliverySpec.MarkStale.
	MarkStale bool `json:"mark_stale,omitempty"`
	// OneVersion drops those whose trained tokens were sampled by more than one version of the weights, where the endpoint reports versions.
	OneVersion bool `json:"one_version,omitempty"`
}

// EvalSpec asks for evaluations: one group of each task of a set, whose results are not delivered.
type EvalSpec struct {
	Tasks     SetRef `json:"tasks"`
	SealedKey string `json:"sealed_key,omitempty"`
	Every     int    `json:"every"` // training steps between two evaluations; the first is at step 0
	GroupSize int    `json:"group_size"`
	// Instead starts no training groups while an evaluation runs; otherwise they share the concurrency.
	Instead bool `json:"instead,omitempty"`
}

// SetRef is a stored set of tasks.
type SetRef struct {
	Key string `json:"key"` // in the store
	Len int    `json:"len"` // tasks
}

// TaskRef is one task of a stored set.
type TaskRef struct {
	Set   SetRef `json:"set"`
	Index int    `json:"index"`
}

var setKey = regexp.MustCompile(`^tasksets/[0-9a-f]{64}$`)

// SetKey is where a set of tasks is stored; digest is its SHA-256 in hex.
func SetKey(digest string) string { return "tasksets/" + digest }

// Validate refuses a reference that names no task of a stored set. The error's kind is Invalid.
func (t TaskRef) Validate() error {
	if !setKey.MatchString(t.Set.Key) || t.Index < 0 || t.Index >= t.Set.Len {
		return fault.Field("tasks", "must name tasks of a stored task set, got task %d of %q", t.Index, t.Set.Key)
	}
	return nil
}

// Validate reports what is wrong with the producer. The error's kind is Invalid.
func (p ProducerSpec) Validate() error {
	switch {
	case CheckID(p.ID) != nil || len(p.ID) > maxProducerID:
		return fault.Field("producer_id", "must be 1 to %d letters, digits, '_' or '-', beginning with a letter or digit, got %q", maxProducerID, p.ID)
	case p.GroupSize < 1 || p.GroupSize > MaxGroupSize:
		return fault.Field("group_size", "must be 1 to %d rollouts, got %d", MaxGroupSize, p.GroupSize)
	case p.MaxReplacements < 0 || p.MaxReplacements > maxReplacements:
		return fault.Field("max_replacements", "must be 0 to %d, got %d", maxReplacements, p.MaxReplacements)
	case p.GroupDeadline < 0:
		return fault.Field("deadline_s", "must not be negative, got %g", p.GroupDeadline.Seconds())
	case p.Sink == "":
		return fault.Field("sink", "must be the name of a sink in the configuration")
	case p.Epochs < 0 || p.Epochs > maxEpochs:
		return fault.Field("epochs", "must be 0 (no bound) to %d, got %d", maxEpochs, p.Epochs)
	case p.BatchSize < 0 || p.BatchSize > maxTrainSteps:
		return fault.Field("batch_size", "must be 0 (one group) to %d, got %d", maxTrainSteps, p.BatchSize)
	case p.Filter.MaxTokens < 0:
		return fault.Field("filter.max_tokens", "must not be negative, got %d", p.Filter.MaxTokens)
	case p.Filter.MaxVersionLag != nil && *p.Filter.MaxVersionLag < 0:
		return fault.Field("filter.max_version_lag", "must not be negative, got %d", *p.Filter.MaxVersionLag)
	case p.Filter.MarkStale && p.Filter.MaxVersionLag == nil:
		return fault.Field("filter.mark_stale", "needs filter.max_version_lag")
	case p.Filter.MinRollouts < 0 || p.Filter.MinRollouts > p.GroupSize:
		return fault.Field("filter.min_rollouts", "must be 0 to group_size (%d), got %d", p.GroupSize, p.Filter.MinRollouts)
	}
	if err := p.Bounds.Validate(); err != nil {
		return err
	}
	if err := (TaskRef{Set: p.Tasks}).Validate(); err != nil {
		return err
	}
	return p.Eval.validate()
}

// Validate reports what is wrong with the bounds. The error's kind is Invalid.
func (b ProducerBounds) Validate() error {
	switch {
	case b.Concurrency < 1 || b.Concurrency > maxConcurrency:
		return fault.Field("concurrency", "must be 1 to %d rollouts at once, got %d", maxConcurrency, b.Concurrency)
	case b.MaxBatchesOffpolicy < 0 || b.MaxBatchesOffpolicy > maxOffpolicy:
		return fault.Field("max_batches_offpolicy", "must be 0 (no bound) to %d, got %d", maxOffpolicy, b.MaxBatchesOffpolicy)
	case b.TotalSteps < 0 || b.TotalSteps > maxTrainSteps:
		return fault.Field("total_steps", "must be 0 (no bound) to %d, got %d", maxTrainSteps, b.TotalSteps)
	}
	return nil
}

func (e *EvalSpec) validate() error {
	switch {
	case e == nil:
		return nil
	case e.Every < 1 || e.Every > maxTrainSteps:
		return fault.Field("eval.every", "must be 1 to %d steps, got %d", maxTrainSteps, e.Every)
	case e.GroupSize < 1 || e.GroupSize > MaxGroupSize:
		return fault.Field("eval.group_size", "must be 1 to %d rollouts, got %d", MaxGroupSize, e.GroupSize)
	}
	return TaskRef{Set: e.Tasks}.Validate()
}

// ProducerPhase says what a producer does.
type ProducerPhase string

const (
	ProducerRunning  ProducerPhase = "running"
	ProducerPaused   ProducerPhase = "paused"   // starts no groups; those that run go on
	ProducerDraining ProducerPhase = "draining" // starts no groups and ends when all are delivered
	ProducerAborting ProducerPhase = "aborting" // its groups are being aborted
	ProducerDone     ProducerPhase = "done"
)

// ProducerOutcome says how a producer ended.
type ProducerOutcome string

const (
	ProducerCompleted ProducerOutcome = "completed" // all tasks or all steps are done
	ProducerStopped   ProducerOutcome = "stopped"   // asked to stop; all its groups were delivered
	ProducerAborted   ProducerOutcome = "aborted"
	ProducerFailed    ProducerOutcome = "failed" // the workflow itself failed or was terminated
)

// ProducerState is the answer to the query "state" of a producer, its result, and what its next run continues from.
type ProducerState struct {
	ID         string          `json:"producer_id"`
	Owner      string          `json:"owner,omitempty"`
	Name       string          `json:"name,omitempty"` // of the task set
	Sink       string          `json:"sink"`
	GroupSize  int             `json:"group_size"`
	Phase      ProducerPhase   `json:"phase"`
	Outcome    ProducerOutcome `json:"outcome,omitempty"`
	Error      string          `json:"error,omitempty"`
	Waiting    string          `json:"waiting,omitempty"` // why no group starts
	Bounds     ProducerBounds  `json:"bounds"`
	Cursor     Cursor          `json:"cursor"`
	Step       int             `json:"step"` // of training
	Counts     ProducerCounts  `json:"counts"`
	Running    []RunningGroup  `json:"running"`
	Outbox     []Finished      `json:"outbox"` // finished groups whose delivery has not ended, oldest first
	Again      []Cursor        `json:"again"`  // tasks whose group was lost and is to run again
	Evaluation *Evaluation     `json:"evaluation,omitempty"`
	Evaluated  []Evaluation    `json:"evaluated"` // the last ones, oldest first
	StartedAt  time.Time       `json:"started_at"`
	FinishedAt *time.Time      `json:"finished_at,omitempty"`
	Runs       int             `json:"runs"` // runs of the workflow; each continues from the one before
}

// Done says whether the producer has ended.
func (s ProducerState) Done() bool { return s.Phase == ProducerDone }

// Cursor is a place in the sequence of groups of a producer. A task that is tried again keeps its number.
type Cursor struct {
	Number int64 `json:"number"` // from 0; number / tasks is the epoch
	Try    int   `json:"try,omitempty"`
}

// ProducerCounts are sums since the start.
type ProducerCounts struct {
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

// Evaluation is one group of each task of the evaluation set, at a step of training.
type Evaluation struct {
	Step       int        `json:"step"`
	Next       int        `json:"next"` // tasks whose group has started
	Done       int        `json:"done"` // groups that ended
	Failed     int        `json:"failed"`
	Rollouts   int        `json:"rollouts"` // with a reward
	Sum        float64    `json:"sum"`      // of the rewards
	Passed     int        `json:"passed"`   // rollouts with a reward of 1 or more
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// Mean is the mean reward; 0 without a rollout.
func (e Evaluation) Mean() float64 { return e.Sum / float64(max(e.Rollouts, 1)) }

// Add counts a group that ended.
func (e *Evaluation) Add(rewards []float64) {
	e.Done++
	if len(rewards) == 0 {
		e.Failed++
	}
	for _, r := range rewards {
		e.Rollouts++
		e.Sum += r
		if r >= 1 {
			e.Passed++
		}
	}
}

// InFlight counts the rollouts of running groups that have not ended.
func (s ProducerState) InFlight() int {
	n := 0
	for i := range s.Running {
		n += s.Running[i].Left
	}
	return n
}

// Find returns the index of a running group, -1 when none has that id.
func (s ProducerState) Find(groupID string) int {
	return slices.IndexFunc(s.Running, func(g RunningGroup) bool { return g.ID == groupID })
}

// ProducerChange is the signal that changes a running producer; fields that are absent stay as they are.
type ProducerChange struct {
	Paused              *bool `json:"paused,omitempty"`
	Stop                bool  `json:"stop,omitempty"` // end after all running groups are delivered
	Concurrency         *int  `json:"concurrency,omitempty"`
	MaxBatchesOffpolicy *int  `json:"max_batches_offpolicy,omitempty"`
	TotalSteps          *int  `json:"total_steps,omitempty"`
}

// Apply returns the bounds as changed.
func (c ProducerChange) Apply(b ProducerBounds) ProducerBounds {
	set := func(to, v *int) {
		if v != nil {
			*to = *v
		}
	}
	set(&b.Concurrency, c.Concurrency)
	set(&b.MaxBatchesOffpolicy, c.MaxBatchesOffpolicy)
	set(&b.TotalSteps, c.TotalSteps)
	return b
}

// ProducerPage is a part of a list of producers. Next is empty on the last one.
type ProducerPage struct {
	Producers []ProducerState `json:"producers"`
	Next      string          `json:"next,omitempty"`
}

// Names of the workflow of producers and of its signals; it has the signal "abort" and the query "state" of rollouts.
const (
	ProducerWorkflowName = "ProducerWorkflow"
	SignalReport         = "report" // GroupReport
	SignalChange         = "change" // ProducerChange
)

// ProducerWorkflowID is the workflow id of a producer.
func ProducerWorkflowID(producerID string) string { return "producer-" + producerID }

// ProducedGroupID is the id of a producer's group.
func ProducedGroupID(producerID string, c Cursor) string {
	id := producerID + "-" + strconv.FormatInt(c.Number, 10)
	if c.Try > 0 {
		id += "t" + strconv.Itoa(c.Try)
	}
	return id
}

// EvalGroupID is the id of a group of an evaluation.
func EvalGroupID(producerID string, step, task int) string {
	return producerID + "-e" + strconv.Itoa(step) + "-" + strconv.Itoa(task)
}
