package harbor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// identity names the rollout and the origin of its task.
type identity struct {
	TaskID   string `json:"task_id"`
	TaskName string `json:"task_name"`
	Dataset  string `json:"dataset"`
	Harness  string `json:"harness"`
	Sandbox  string `json:"sandbox"`

	// id of the rollout
	TrialName string `json:"trial_name"`

	// the agent's own session
	SessionID string `json:"session_id"`
}

// result is HarborEnv's HarborRolloutResult.
type result struct {
	identity
	Reward    *float64           `json:"reward"`
	Rewards   map[string]float64 `json:"rewards"`
	RewardKey string             `json:"reward_key"`

	// one for each step that ran
	StepResults []stepResult `json:"step_results"`

	RolloutType   rollout.RolloutType  `json:"rollout_type"`
	CaptureLevel  rollout.CaptureLevel `json:"capture_level"`
	ParamFixes    []string             `json:"param_fixes"`
	Turns         []turn               `json:"turns"`
	Conversations []dialog             `json:"conversations"`
	NTurns        int                  `json:"n_turns"`
	NRoots        int                  `json:"n_roots"`
	BudgetStops   int                  `json:"budget_stop_count"`
	Trainable     int                  `json:"n_trainable_tokens"`
	MultiTurn     bool                 `json:"multi_turn"`
	ATIF          string               `json:"atif"`
	TraceSource   string               `json:"trace_source"`
	Findings      []string             `json:"findings"`

	WallS float64 `json:"wall_s"`

	// seconds, of all attempts
	PhaseTimings map[string]float64 `json:"phase_timings"`
	AgentLogTail string             `json:"agent_log_tail"`

	OK        bool    `json:"ok"`
	Error     *string `json:"error"`
	Exception *string `json:"exception_type"`

	// not of HarborEnv
	Outcome rollout.Outcome `json:"outcome"`
}

// stepResult is one step of a task.
type stepResult struct {
	Name    string             `json:"name"`
	Rewards map[string]float64 `json:"rewards"`
	Passed  bool               `json:"passed"`
}

// maxError bounds the error of a result, in characters.
const maxError = 600

// rewardName is the key of a reward without a name.
const rewardName = "reward"

// newResult returns a result without content. Its type is train and it has no turns: TRL's worker then
// leaves the rollout out. An evaluation or a fatal finding would stop the training.
func newResult(id identity, findings []string) result {
	return result{
		identity:      id,
		Rewards:       map[string]float64{},
		StepResults:   []stepResult{},
		RolloutType:   rollout.TypeTrain,
		CaptureLevel:  rollout.CaptureTokens,
		ParamFixes:    []string{},
		Turns:         []turn{},
		Conversations: []dialog{},
		ATIF:          "none",
		Findings:      append([]string{}, findings...),
		PhaseTimings:  map[string]float64{},
	}
}

// failed is the result of a rollout that could not be started.
func failed(p plan, err error) result {
	r := newResult(p.id, p.findings)
	r.fail(string(fault.KindOf(err)), err.Error())

	return r
}

func (r *result) fail(exception, why string) {
	why = text.HeadUTF8(why, maxError)
	r.OK, r.Exception, r.Error = false, &exception, &why
}

// exceptions are the clients' names for outcomes that are failures.
var exceptions = map[rollout.Outcome]string{
	rollout.AgentFailed:    "NonZeroAgentExitCodeError",
	rollout.AgentTimeout:   "AgentTimeoutError",
	rollout.Aborted:        "CancelledError",
	rollout.SetupFailed:    "EnvironmentSetupError",
	rollout.VerifierFailed: "VerifierError",
	rollout.InfraFailed:    "EnvironmentLostError",
}

// finished returns the result of a rollout, from the head of its stored result and its trace.
func finished(p plan, head rollout.Result, c captured) result {
	r := newResult(p.id, append(p.findings, head.Findings...))
	r.TrialName, r.SessionID, r.Outcome = head.ID, head.SessionID, head.Outcome
	// empty in results of earlier versions
	if head.RolloutType != "" {
		r.RolloutType, r.CaptureLevel = head.RolloutType, head.CaptureLevel
	}

	r.ParamFixes = append(r.ParamFixes, head.ParamFixes...)

	r.WallS, r.AgentLogTail = head.WallS, head.AgentLogTail
	for _, phase := range head.Phases {
		if phase.End != nil {
			r.PhaseTimings[string(phase.Phase)] += phase.End.Sub(phase.Start).Seconds()
		}
	}

	if head.Outcome == rollout.BudgetExhausted {
		r.BudgetStops = 1
	}

	r.captured(c)

	name, lost := exceptions[head.Outcome]
	if r.OK = !lost; lost {
		r.fail(name, describe(head))
	}

	r.grade(p, head)
	r.untrained(p)

	return r
}

// describe returns the reason why a rollout failed.
func describe(head rollout.Result) string {
	if head.Error != nil && *head.Error != "" {
		return *head.Error
	}

	return strings.TrimSuffix(string(head.Outcome)+": "+head.Grading.Why, ": ")
}

// grade sets the rewards, and the one of the requested key, by which the rollout was graded.
func (r *result) grade(p plan, head rollout.Result) {
	r.Rewards = namedRewards(head.Rewards, head.Reward)
	for _, s := range head.Steps {
		r.StepResults = append(r.StepResults, stepResult{
			Name:    s.Name,
			Rewards: namedRewards(s.Rewards, s.Reward),
			Passed:  s.Outcome == rollout.Completed,
		})
	}

	if head.Reward == nil {
		return
	}

	own, _ := p.args["reward_key"].(string)

	name, ok := rollout.Verifier{RewardKey: cmp.Or(p.key, own)}.MainReward(r.Rewards)
	if !ok && p.key != "" {
		r.fail("RewardKeyError", "no reward "+p.key+": the verifier gave "+
			strings.Join(slices.Sorted(maps.Keys(r.Rewards)), ", "))

		return
	}

	r.Reward, r.RewardKey = head.Reward, cmp.Or(name, rewardName)
}

// namedRewards are the rewards by name: of a verifier that names none, the one.
func namedRewards(named map[string]float64, one *float64) map[string]float64 {
	if len(named) > 0 {
		return named
	}

	if one == nil {
		return map[string]float64{}
	}

	return map[string]float64{rewardName: *one}
}

// untrained removes the reward from a rollout for training that has no turn: there is nothing to reward,
// and a trainer would compare the siblings of the group with it.
func (r *result) untrained(p plan) {
	purpose, _ := p.args["purpose"].(string)
	if len(r.Turns) > 0 || purpose == string(rollout.PurposeEval) || !rollout.NeedsModel(r.Harness) {
		return
	}

	r.RolloutType, r.CaptureLevel, r.Reward, r.RewardKey = rollout.TypeTrain, rollout.CaptureTokens, nil, ""
	r.Findings = append(
		r.Findings,
		"[WARN] no_turns: the agent made no complete model call; the rollout has no reward and should be left out",
	)
}
