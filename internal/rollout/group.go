package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Bounds of a group.
const (
	MaxGroupSize    = 128
	MaxReplacements = 1024
	// maxGroupText bounds the text of all members' tasks, in bytes: each is in the workflow's history,
	// which Temporal bounds to 50 MiB.
	maxGroupText = 32 << 20
	// maxGroupID leaves room in a rollout's id for what MemberID appends.
	maxGroupID = 52
)

// GroupSpec is n rollouts of one task. It is the input of GroupWorkflow and therefore part of stored
// histories: fields are added, never renamed or removed.
type GroupSpec struct {
	ID   string `json:"id"`
	Size int    `json:"size"`
	// MaxReplacements bounds, for the whole group, the rollouts that replace those lost to infrastructure.
	MaxReplacements int `json:"max_replacements"`
	// Deadline bounds the group from its start; members that run then are aborted. 0: the members' own bounds only.
	Deadline time.Duration `json:"deadline,omitempty"`
	// Member is the specification of each rollout. Its ID and GroupID are set by MemberSpec.
	Member Spec `json:"member"`
	// From is where Member is stored; nil: Member is complete. Owner and Model.SealedKey are taken from
	// Member in either case.
	From *TaskRef `json:"from,omitempty"`
	// ReportTo is the id of the workflow that gets a signal "report" whenever rollouts have ended; "": none does.
	ReportTo string `json:"report_to,omitempty"`
}

// Validate reports what is wrong with the group. The error's kind is Invalid.
func (g GroupSpec) Validate() error {
	switch {
	case CheckID(g.ID) != nil || len(g.ID) > maxGroupID:
		return fault.Field("group_id",
			"must be 1 to %d letters, digits, '_' or '-', beginning with a letter or digit, got %q",
			maxGroupID, g.ID)
	case g.Size < 1 || g.Size > MaxGroupSize:
		return fault.Field("group_size", "must be 1 to %d rollouts, got %d", MaxGroupSize, g.Size)
	case g.MaxReplacements < 0 || g.MaxReplacements > MaxReplacements:
		return fault.Field("max_replacements", "must be 0 to %d, got %d", MaxReplacements, g.MaxReplacements)
	case g.Deadline < 0:
		return fault.Field("deadline_s", "must not be negative, got %g", g.Deadline.Seconds())
	}

	if err := g.MemberSpec(0, 0).Validate(); err != nil {
		return err
	}

	return g.checkText()
}

func (g GroupSpec) checkText() error {
	_, verifier := g.Member.Task.Split()

	text, largest := g.Member.Task.inlineSize(verifier)
	if all := text * (g.Size + g.MaxReplacements); all > maxGroupText {
		return fault.Field(largest,
			"instruction, setup and verifier of %d members and %d replacements must be at most %d bytes together, got %d",
			g.Size, g.MaxReplacements, maxGroupText, all)
	}

	return nil
}

// MemberSpec is the specification of a member's rollout; replacement 0 is its first one.
func (g GroupSpec) MemberSpec(index, replacement int) Spec {
	s := g.Member
	s.ID, s.GroupID = MemberID(g.ID, index, replacement), g.ID

	return s
}

// MemberID is the id of a member's rollout: <group>-<index>, and <group>-<index>r<n> for its n-th replacement.
func MemberID(group string, index, replacement int) string {
	id := group + "-" + strconv.Itoa(index)
	if replacement > 0 {
		id += "r" + strconv.Itoa(replacement)
	}

	return id
}

// GroupOfMember is the id of the group whose member would have that id; false: no member has such an id.
func GroupOfMember(rolloutID string) (string, bool) {
	at := strings.LastIndexByte(rolloutID, '-')
	if at < 1 {
		return "", false
	}

	index, replacement, _ := strings.Cut(rolloutID[at+1:], "r")
	i, err := strconv.Atoi(index)
	// no number: 0, whose id has no such end
	n, _ := strconv.Atoi(replacement)

	return rolloutID[:at], err == nil && MemberID(rolloutID[:at], i, n) == rolloutID
}

// GroupOutcome says how a group ended; "" while it runs.
type GroupOutcome string

const (
	// GroupComplete: each member ended with an outcome of the policy's own doing.
	GroupComplete GroupOutcome = "complete"
	// GroupPartial: some members did not; the others' results count.
	GroupPartial GroupOutcome = "partial"
	// GroupFailed: no member ended with an outcome of the policy's own doing.
	GroupFailed GroupOutcome = "failed"
	// GroupAborted: a client or an operator ended it.
	GroupAborted GroupOutcome = "aborted"
)

// GroupState is the answer to the query "state" of a group, and its result.
type GroupState struct {
	ID      string       `json:"group_id"`
	TaskID  string       `json:"task_id"`
	Owner   string       `json:"owner,omitempty"`
	Size    int          `json:"size"`
	Outcome GroupOutcome `json:"outcome,omitempty"`

	// why it is not complete
	Error   string   `json:"error,omitempty"`
	Members []Member `json:"members"`

	// rollouts that were lost to infrastructure and replaced
	Replaced   int        `json:"replaced"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// Done reports whether the group has ended.
func (g GroupState) Done() bool { return g.Outcome != "" }

// Key identifies the group among those of several deployments with one trainer, by its id and its start time: ids are
// unique only within one.
func (g GroupState) Key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", g.ID, g.StartedAt.UnixNano()))
	return g.ID + "-" + hex.EncodeToString(sum[:6])
}

// Finished counts the members that have ended.
func (g GroupState) Finished() int {
	n := 0

	for _, m := range g.Members {
		if m.Outcome != "" {
			n++
		}
	}

	return n
}

// EndedAs returns how a group ended whose members have all ended and that nobody has ended early, and why it is not
// complete.
func (g GroupState) EndedAs() (GroupOutcome, string) {
	good, why := 0, ""

	for _, m := range g.Members {
		if m.Outcome.MayCarryReward() {
			good++
		} else if why == "" {
			why = fmt.Sprintf("rollout %s: %s: %s", m.RolloutID, m.Outcome, m.Error)
		}
	}

	switch good {
	case len(g.Members):
		return GroupComplete, ""
	case 0:
		return GroupFailed, why
	default:
		return GroupPartial, why
	}
}

// Rewards lists the rewards of the members that have one, in their order.
func (g GroupState) Rewards() []float64 {
	var out []float64

	for _, m := range g.Members {
		if m.Reward != nil {
			out = append(out, *m.Reward)
		}
	}

	return out
}

// Member is one of a group's rollouts.
type Member struct {
	// from 0
	Index int `json:"index"`

	// id of the newest rollout
	RolloutID string   `json:"rollout_id"`
	Outcome   Outcome  `json:"outcome,omitempty"`
	Reward    *float64 `json:"reward"`
	Error     string   `json:"error,omitempty"`

	// rollouts that infrastructure lost, which this one replaces
	Lost []string `json:"lost,omitempty"`
}

// ListedGroup is a group in a list, which has no members. What the list does not know is absent, not 0.
type ListedGroup struct {
	ID     string `json:"group_id"`
	TaskID string `json:"task_id"`
	Owner  string `json:"owner,omitempty"`
	Size   *int   `json:"size,omitempty"`

	// "": it runs
	Outcome  GroupOutcome `json:"outcome,omitempty"`
	Replaced *int         `json:"replaced,omitempty"`

	// mean of the members with a reward, once the group has ended
	MeanReward *float64   `json:"mean_reward,omitempty"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// GroupPage is a part of a list of groups. Next is empty on the last one.
type GroupPage struct {
	Groups []ListedGroup `json:"groups"`
	Next   string        `json:"next,omitempty"`
}

// GroupWorkflowName is the name of the workflow of groups; it has the signal "abort" and the query "state" of rollouts.
const GroupWorkflowName = "GroupWorkflow"

// GroupWorkflowID is the workflow id of a group.
func GroupWorkflowID(groupID string) string { return "group-" + groupID }

// SignalReport is the name of the signal GroupReport.
const SignalReport = "report"

// GroupReport is the signal of a group to its producer that rollouts have ended.
type GroupReport struct {
	GroupID string `json:"group_id"`
	Left    int    `json:"left"`

	// "": it runs
	Outcome GroupOutcome `json:"outcome,omitempty"`

	// infrastructure lost all of its rollouts
	Lost     bool      `json:"lost,omitempty"`
	Error    string    `json:"error,omitempty"`
	Rewards  []float64 `json:"rewards,omitempty"`
	Replaced int       `json:"replaced,omitempty"`
}

// Report is the group's report to its producer.
func (g GroupState) Report() GroupReport {
	r := GroupReport{
		GroupID:  g.ID,
		Left:     g.Size - g.Finished(),
		Outcome:  g.Outcome,
		Error:    g.Error,
		Replaced: g.Replaced,
	}
	if !g.Done() {
		return r
	}

	r.Left, r.Rewards, r.Lost = 0, g.Rewards(), g.Outcome == GroupFailed
	for _, m := range g.Members {
		r.Lost = r.Lost && (m.Outcome == InfraFailed || m.Outcome == "")
	}

	return r
}
