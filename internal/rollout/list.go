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
	Status   string
	TaskID   string
	GroupID  string
	Owner    string
	Model    string
	Agent    string
	Endpoint string
	Outcome  Outcome

	// ModelVersion is the version of the weights that the first reply named
	ModelVersion string

	// prefix of the id
	IDPrefix string

	// ProducerID selects the rollouts of a producer's groups
	ProducerID string

	// IDs selects these rollouts alone, at most MaxIDs; empty: all
	IDs []string

	// Query selects rollouts that have ended by words of their transcripts, see MaxQuery
	Query string

	// bounds of the reward, both included; nil: none. A rollout without a reward is in no range.
	MinReward, MaxReward *float64

	// bounds of the turns of the last attempt, both included; nil: none
	MinTurns, MaxTurns *int

	// bounds of the time from the start to the end, both included; nil: none
	MinDuration, MaxDuration *time.Duration

	// bounds of the start: from Since, before Until; zero: none
	Since, Until time.Time

	// EndedSince is the earliest end; zero: none
	EndedSince time.Time

	// Sort is one of SortKeys, after "-" with the greatest first; "": see Page
	Sort string

	// size of one page
	Limit int

	// Page.Next of the page before
	Cursor string
	// Detail queries each rollout for its attempt, its turns and why it waits, which a list does not have.
	Detail bool
}

// SortKeys are the fields of Listed by which a list can be sorted; duration_s is the time from the start to the end.
func SortKeys() []string {
	return []string{
		"rollout_id", "task_id", "group_id", "agent", "model", "endpoint", "outcome", "reward", "turns", "completion_tokens",
		"duration_s", "started_at",
	}
}

// OfMemo reports whether the filter selects by what Temporal lists of a rollout, and cannot query.
func (f Filter) OfMemo() bool { return f.Agent != "" || f.Endpoint != "" || f.ProducerID != "" }

// NeedsIndex reports whether only the index of rollouts that have ended can answer: Temporal does not know what the
// filter selects or sorts by.
func (f Filter) NeedsIndex() bool { return f.indexed() != "" }

// indexed is the name of the first field for which the filter needs the index; "": it needs none.
func (f Filter) indexed() string {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"q", f.Query != ""},
		{"ids", len(f.IDs) > 0},
		{"model_version", f.ModelVersion != ""},
		{"ended_since", !f.EndedSince.IsZero()},
		{"min_turns", f.MinTurns != nil},
		{"max_turns", f.MaxTurns != nil},
		{"min_duration_s", f.MinDuration != nil},
		{"max_duration_s", f.MaxDuration != nil},
		{"sort", f.Sort != ""},
	} {
		if field.set {
			return field.name
		}
	}

	return ""
}

// MaxDetail bounds a page with Filter.Detail.
const MaxDetail = 100

// MaxIDs bounds Filter.IDs.
const MaxIDs = 100

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
		return fault.Field("id_prefix", "must be a prefix of an id, got %q", f.IDPrefix)
	case f.ProducerID != "" && CheckID(f.ProducerID) != nil:
		return fault.Field("producer_id", "must be the id of a producer, got %q", f.ProducerID)
	case len(f.IDs) > MaxIDs || slices.ContainsFunc(f.IDs, func(id string) bool { return CheckID(id) != nil }):
		return fault.Field("ids", "must be at most %d ids with commas, got %d: %q", MaxIDs, len(f.IDs), f.IDs)
	case f.Detail && f.Limit > MaxDetail:
		return fault.Field("limit", "must be at most %d with detail=true, got %d", MaxDetail, f.Limit)
	case f.NeedsIndex() && f.Status == StatusRunning:
		return fault.Field(f.indexed(), "only rollouts that have ended are searched and sorted: leave out status or %s", f.indexed())
	case f.Sort != "" && !slices.Contains(SortKeys(), strings.TrimPrefix(f.Sort, "-")):
		return fault.Field("sort", "must be one of %s, or one of them after -; got %q", strings.Join(SortKeys(), ", "), f.Sort)
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
	case !utf8.ValidString(f.Agent):
		return fault.Field("agent", "must be UTF-8, got %q", f.Agent)
	case !utf8.ValidString(f.Endpoint):
		return fault.Field("endpoint", "must be UTF-8, got %q", f.Endpoint)
	case !utf8.ValidString(f.ModelVersion):
		return fault.Field("model_version", "must be UTF-8, got %q", f.ModelVersion)
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
	// Agent and Endpoint are absent in rollouts of earlier versions.
	Agent    string `json:"agent,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	Phase    Phase  `json:"phase"`

	// the last attempt; of a running rollout, the one that last had a sandbox
	Attempt *int `json:"attempt,omitempty"`

	// turns of the last attempt; of a running rollout only with Filter.Detail
	Turns *int `json:"turns,omitempty"`

	// ToolCalls are the calls of an interactive episode that have ended, and LastCallAt is when the latest one began. Of a
	// running episode only with Filter.Detail, and while its host answers.
	ToolCalls  *int       `json:"tool_calls,omitempty"`
	LastCallAt *time.Time `json:"last_call_at,omitempty"`

	// usage of a rollout that has ended
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

// Done reports whether the rollout has ended.
func (l Listed) Done() bool { return l.Phase == PhaseDone }

// Page is a part of a list: running rollouts first, then ended ones, the latest end first, or as Filter.Sort says.
// Next is empty on the last page.
type Page struct {
	Rollouts []Listed `json:"rollouts"`
	Next     string   `json:"next,omitempty"`
	// Unindexed counts the rollouts that the index does not know yet, only with a filter that needs it.
	Unindexed int `json:"unindexed,omitempty"`
	// IndexedUntil is the time before which a rollout must have ended to be found by a search, apart from the Unindexed
	// ones; only with Filter.Query.
	IndexedUntil *time.Time `json:"indexed_until,omitempty"`
}

// Counts describe all rollouts that a filter selects and that have ended.
type Counts struct {
	Rollouts int `json:"rollouts"`
	// Running counts those that the filter selects and that run; absent: Temporal cannot count by what the filter selects.
	Running *int `json:"running,omitempty"`

	Outcomes map[Outcome]int `json:"outcomes"`

	// Bins of the numbers, least first, without the empty ones. A rollout without the number is in none.
	Rewards   []Bin `json:"rewards"`
	Turns     []Bin `json:"turns"`
	Durations []Bin `json:"durations_s"`

	// Periods have the rollouts by the time of their start, earliest first, without those in which none started or ran: at
	// most MaxPeriods.
	Periods []Period `json:"periods"`

	// Versions have the rollouts by the version of the weights that their first reply named, in the order in which the
	// versions appeared: the latest MaxVersions.
	Versions []VersionCounts `json:"versions"`

	// Unindexed counts the rollouts that have ended and are not counted yet.
	Unindexed int `json:"unindexed,omitempty"`
}

// Bin is a bar of a histogram. Min and Max are the least and the greatest number in it: a list with these bounds has
// exactly its rollouts.
type Bin struct {
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Count int     `json:"count"`
}

// MaxPeriods bounds Counts.Periods.
const MaxPeriods = 60

// Period describes the rollouts that started from Start on and before End: a list with these bounds has exactly them,
// and there may be none.
// All periods of an answer have the same length.
type Period struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`

	Rollouts int             `json:"rollouts"`
	Outcomes map[Outcome]int `json:"outcomes"`

	RewardCounts

	// sums over the rollouts that have the number
	Turns            int64   `json:"turns"`
	CompletionTokens int64   `json:"completion_tokens"`
	Duration         float64 `json:"duration_s"`

	// Queued and Running are how many rollouts waited for a slot, and how many had one, on the mean of the period; also of
	// rollouts that started before it. Those without times of their phases are in neither.
	Queued  float64 `json:"queued"`
	Running float64 `json:"running"`

	// Versioned counts the rollouts whose first reply named the version of its weights. Behind is the sum, and MaxBehind the
	// greatest, of how many newer versions the selected rollouts saw before each of them ended.
	Versioned int `json:"versioned"`
	Behind    int `json:"versions_behind"`
	MaxBehind int `json:"max_versions_behind"`

	// Sequenced counts the rollouts whose last attempt has training sequences, and Sequences is the sum of these: more than
	// one each where prompts did not repeat what was sampled.
	Sequenced int `json:"sequenced"`
	Sequences int `json:"sequences"`
}

// RewardCounts describes the rewards of some rollouts.
type RewardCounts struct {
	// Rewarded counts those with a reward, and Passed those with a reward of 1 or more.
	Rewarded int `json:"rewarded"`
	Passed   int `json:"passed"`

	// MeanReward is that of the Rewarded ones; absent: there are none.
	MeanReward *float64 `json:"mean_reward,omitempty"`
}

// Add adds the reward of a rollout, if it has one.
func (r *RewardCounts) Add(reward float64, known bool) {
	if !known {
		return
	}

	var sum float64
	if r.MeanReward != nil {
		sum = *r.MeanReward * float64(r.Rewarded)
	}

	r.Rewarded++
	r.MeanReward = new((sum + reward) / float64(r.Rewarded))

	if reward >= 1 {
		r.Passed++
	}
}

// MaxVersions bounds Counts.Versions.
const MaxVersions = 100

// VersionCounts describes the rollouts whose first reply named a version of the weights.
type VersionCounts struct {
	Version string `json:"version"`

	// FirstSeen is the start of the first call, of any selected rollout, whose reply named the version.
	FirstSeen time.Time `json:"first_seen"`
	Rollouts  int       `json:"rollouts"`
	RewardCounts
}
