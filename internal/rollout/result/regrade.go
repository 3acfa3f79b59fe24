package result

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Regrader composes the record of a regrade from the grades of its parts in the store, and makes it the grade of the
// rollout.
type Regrader struct {
	Store              *store.Store
	Spec               rollout.RegradeSpec
	StartedAt, EndedAt time.Time

	// why a part has no grade; "": all have one
	Failed string
}

// Compose returns the record.
func (g *Regrader) Compose(ctx context.Context) (rollout.Regrade, error) {
	r := rollout.Regrade{
		ID: g.Spec.ID, RolloutID: g.Spec.RolloutID, StartedAt: g.StartedAt, FinishedAt: &g.EndedAt,
		Verifier: g.Spec.Verifier, Error: g.Failed, Grading: rollout.Grading{Status: rollout.NotGraded},
	}
	if g.Failed != "" {
		return r, nil
	}

	graded := true

	for n, part := range g.Spec.Parts {
		step := rollout.StepResult{
			Name: part.Step, Attempt: part.Attempt, Outcome: part.Outcome, Reward: part.Reward,
			Grading: rollout.Grading{Status: rollout.NotGraded},
		}

		if part.Graded() {
			record, err := grading.ReadRecord(ctx, g.Store, g.Spec.Target(part))
			if err != nil {
				return r, err
			}

			describe(&step, record, n == len(g.Spec.Parts)-1)
			step.Reward = record.Reward
			graded = graded && record.Reward != nil
			addRecord(&r, record)
		}

		r.Steps = append(r.Steps, step)
	}

	g.addRewards(&r)

	if !graded {
		r.Reward = nil
	}

	if r.Steps[0].Name == "" {
		r.Steps = nil
	} else {
		r.TurnRewards = nil
	}

	return r, nil
}

// addRecord makes what a verifier wrote that of the regrade: the last one's stays. A verifier without a usable reward
// decides how the whole was graded.
func addRecord(r *rollout.Regrade, record grading.Record) {
	r.VerifyResults, r.VerifierStdout, r.VerifierStderr = record.Commands, record.Stdout, record.Stderr
	r.ResourceCauses = append(r.ResourceCauses, record.Causes...)
	r.TestExitCode, r.TurnRewards = nil, record.TurnRewards

	if record.Script != nil {
		r.TestExitCode = &record.Script.ExitCode
	}

	if r.Grading.Status != rollout.NoUsableReward {
		r.Grading = record.Grading
	}
}

// addRewards adds the rewards of the steps together.
func (g *Regrader) addRewards(r *rollout.Regrade) {
	r.Reward, r.Rewards = g.Spec.Strategy.RewardOf(r.Steps), r.Steps[len(r.Steps)-1].Rewards
	if g.Spec.Strategy != rollout.RewardFinal && r.Steps[0].Name != "" {
		r.Rewards = meanRewards(r.Steps)
	}
}

// Apply makes the grade that of the rollout's result and of its group, whose state it returns (nil: it is of no
// group). The first grade stays in Grading.Before. A regrade without a reward changes nothing. Of several regrades, also
// at the same time, the one that was asked for last is the rollout's grade.
func (g *Regrader) Apply(ctx context.Context, r *rollout.Regrade) (*rollout.GroupState, error) {
	if r.Reward == nil {
		r.NotApplied = "it has no reward"
		return nil, nil
	}

	if err := g.Store.PutJSON(ctx, store.AppliedKey(r.RolloutID, r.ID), r); err != nil {
		return nil, err
	}

	groupID, err := g.applyLast(ctx, r)
	if err != nil || groupID == "" || !r.Applied {
		return nil, err
	}

	return refreshGroup(ctx, g.Store, groupID)
}

// applyLast makes the regrade that was asked for last the rollout's grade, and reports whether that is r. Each caller has
// stored its own regrade before, and repeats until what it wrote is the last one: an older one that is written late is
// written over.
func (g *Regrader) applyLast(ctx context.Context, r *rollout.Regrade) (groupID string, err error) {
	last, err := g.latestRequest(ctx)
	for written := ""; err == nil && last.ID != written; {
		if groupID, err = g.write(ctx, last); err == nil {
			written = last.ID
			last, err = g.latestRequest(ctx)
		}
	}

	if r.Applied = err == nil && last.ID == r.ID; err == nil && !r.Applied {
		r.NotApplied = fmt.Sprintf("regrade %s was asked for later and is the rollout's grade", last.ID)
	}

	return groupID, err
}

// latestRequest returns the regrade to apply that was asked for last.
func (g *Regrader) latestRequest(ctx context.Context) (last rollout.Regrade, err error) {
	for key, err := range g.Store.Keys(ctx, store.AppliedKey(g.Spec.RolloutID, "")) {
		if err != nil {
			return last, err
		}

		var r rollout.Regrade
		if err := g.Store.JSON(ctx, key, &r); err != nil {
			return last, err
		}

		if cmp.Or(r.StartedAt.Compare(last.StartedAt), cmp.Compare(r.ID, last.ID)) > 0 {
			last = r
		}
	}

	return last, nil
}

// write puts a regrade into the stored result, and returns the rollout's group.
func (g *Regrader) write(ctx context.Context, r rollout.Regrade) (groupID string, err error) {
	stored, err := g.read(ctx)
	if err != nil {
		return "", err
	}

	g.change(stored.Result, &r)

	if err := g.Store.PutJSON(ctx, store.ResultKey(r.RolloutID), stored); err != nil {
		return "", err
	}

	return stored.GroupID, g.Store.PutJSON(ctx, store.HeadKey(r.RolloutID), stored.Head())
}

// storedResult is a result whose large parts are not decoded.
type storedResult struct {
	*rollout.Result
	ProxyTurns   json.RawMessage `json:"proxy_turns"`
	WorkdirFiles json.RawMessage `json:"workdir_files"`
	Files        json.RawMessage `json:"files"`
}

func (g *Regrader) read(ctx context.Context) (storedResult, error) {
	stored := storedResult{Result: new(rollout.Result)}

	return stored, g.Store.JSON(ctx, store.ResultKey(g.Spec.RolloutID), &stored)
}

// change puts the grade into a result.
func (g *Regrader) change(res *rollout.Result, r *rollout.Regrade) {
	before := res.Grading.Before
	if before == nil {
		before = &rollout.EarlierGrade{
			Outcome: res.Outcome, Reward: res.Reward, Rewards: res.Rewards,
			Status: res.Grading.Status, Why: res.Grading.Why,
		}
	}

	// the error of a rollout without a grade was the verifier's
	if res.Outcome == rollout.VerifierFailed {
		if res.Error != nil {
			before.Error = *res.Error
		}

		res.Error = nil
	}

	res.Outcome = g.Spec.Parts[len(g.Spec.Parts)-1].Outcome
	res.Reward, res.Rewards, res.TurnRewards, res.Steps = r.Reward, r.Rewards, r.TurnRewards, r.Steps
	res.Grading = r.Grading
	res.Grading.Before = before
	res.VerifyResults, res.VerifierStdout, res.VerifierStderr = r.VerifyResults, r.VerifierStdout, r.VerifierStderr
	res.TestExitCode = r.TestExitCode
}

// refreshGroup gives the stored state of an ended group the grades of its members whose regrades were applied; nil: there
// is no such group. Members may be graded at the same time: each caller changed a result before, and repeats until
// what it wrote has all of them.
func refreshGroup(ctx context.Context, s *store.Store, id string) (*rollout.GroupState, error) {
	for written := false; ; written = true {
		var state rollout.GroupState
		if err := s.JSON(ctx, store.GroupKey(id), &state); err != nil {
			return nil, fault.Ignore(err, fault.NotFound)
		}

		fresh := state
		fresh.Members = slices.Clone(state.Members)

		for n := range fresh.Members {
			if err := refreshMember(ctx, s, &fresh.Members[n]); err != nil {
				return nil, err
			}
		}

		if fresh.Outcome != rollout.GroupAborted {
			fresh.Outcome, fresh.Error = fresh.EndedAs()
		}

		if written && reflect.DeepEqual(fresh, state) {
			return &state, nil
		}

		if err := s.PutJSON(ctx, store.GroupKey(id), fresh); err != nil {
			return nil, err
		}
	}
}

func refreshMember(ctx context.Context, s *store.Store, m *rollout.Member) error {
	var head rollout.Result
	if err := s.JSON(ctx, store.HeadKey(m.RolloutID), &head); err != nil {
		return fault.Ignore(err, fault.NotFound)
	}

	if head.Grading.Before == nil {
		return nil
	}

	m.Outcome, m.Reward, m.Error = head.Outcome, head.Reward, ""
	if head.Error != nil {
		m.Error = *head.Error
	}

	return nil
}
