package result

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// Head is the part of a Result that comes from the workflow. It is part of workflow histories: add fields,
// never rename or remove one.
type Head struct {
	TaskID   string          `json:"task_id,omitempty"`
	GroupID  string          `json:"group_id,omitempty"`
	Owner    string          `json:"owner,omitempty"`
	Agent    string          `json:"agent,omitempty"`
	Model    string          `json:"model,omitempty"`
	Endpoint string          `json:"endpoint,omitempty"`
	Mode     rollout.Mode    `json:"mode"`
	Outcome  rollout.Outcome `json:"outcome"`
	Reward   *float64        `json:"reward"`
	Error    string          `json:"error,omitempty"`
	ExitCode int             `json:"exit_code"`

	// the rewards of a client's score; the store has those of a verifier
	Rewards     map[string]float64   `json:"rewards,omitempty"`
	TurnRewards []rollout.TurnReward `json:"turn_rewards,omitempty"`

	// if false, ExitCode counts only if it is not -1
	AgentRan   bool   `json:"agent_ran,omitempty"`
	SessionID  string `json:"session_id,omitempty"`
	InstallLog string `json:"install_log,omitempty"`
	Malformed  int    `json:"malformed_calls,omitempty"`

	// see rollout.Result.ModelHeldS
	Held time.Duration `json:"held,omitempty"`

	// the one being collected is the last
	Attempts []rollout.Attempt     `json:"attempts"`
	Phases   []rollout.PhaseTiming `json:"phases,omitempty"`
	// Steps are those of the task that ran; the store has their gradings.
	Steps []rollout.StepResult `json:"steps,omitempty"`
	// FinalReward: the named rewards are those of the last step, and not the means.
	FinalReward bool                 `json:"final_reward,omitempty"`
	Purpose     rollout.Purpose      `json:"purpose,omitempty"`
	Sampling    *rollout.Sampling    `json:"sampling,omitempty"`
	Messages    rollout.MessagesMode `json:"messages,omitempty"`
	StartedAt   time.Time            `json:"started_at"`
	EndedAt     time.Time            `json:"ended_at"`
}

// result returns a result of a rollout with the workflow's part.
func (h *Head) result(rolloutID string) rollout.Result {
	res := rollout.NewResult(rolloutID)
	res.TaskID, res.GroupID, res.Owner = h.TaskID, h.GroupID, h.Owner
	res.Agent, res.Model, res.Endpoint = h.Agent, h.Model, h.Endpoint
	res.Mode, res.SessionID, res.Phases, res.Sampling = h.Mode, h.SessionID, h.Phases, h.Sampling

	res.Outcome, res.Reward, res.ExitCode = h.Outcome, h.Reward, h.ExitCode
	if h.AgentRan || h.ExitCode != -1 {
		res.AgentExitCode = &h.ExitCode
	}

	res.MalformedCalls, res.ModelHeldS = h.Malformed, h.Held.Seconds()
	res.WallS = h.EndedAt.Sub(h.StartedAt).Seconds()

	res.InstallLogTail = text.Tail(h.InstallLog, installTail)
	if n := len(h.Attempts); n > 0 {
		res.Attempts, res.SandboxID = h.Attempts, h.Attempts[n-1].SandboxID
	}

	if h.Error != "" {
		res.Error = &h.Error
	}
	// from a client; a verifier leaves a record
	if h.Reward != nil {
		res.Grading = rollout.Grading{Status: rollout.Graded}
		res.Rewards, res.TurnRewards = h.Rewards, h.TurnRewards
	}
	// unless the store has a record of the grading
	if h.Outcome == rollout.VerifierFailed {
		res.Grading = rollout.Grading{Status: rollout.NoUsableReward, Why: h.Error}
	}

	return res
}
