package taskset

import "slices"

// Step is one of several parts of a task. Its fields are those of the task, for the step alone.
type Step struct {
	// unique in the task
	Name        string `yaml:"name" json:"name"`
	Instruction string `yaml:"instruction" json:"instruction"`

	Files   map[string]string `yaml:"files" json:"files"`
	Uploads map[string]string `yaml:"uploads" json:"uploads"`

	Setup    []string `yaml:"setup" json:"setup"`
	Solution []string `yaml:"solution" json:"solution"`

	Verify      []string          `yaml:"verify" json:"verify"`
	TestScript  string            `yaml:"test_script" json:"test_script"`
	TestFiles   map[string]string `yaml:"test_files" json:"test_files"`
	RewardRange []float64         `yaml:"reward_range" json:"reward_range"`
	RewardKey   string            `yaml:"reward_key" json:"reward_key"`

	// least rewards by name with which the next step begins; "reward" is the step's own
	MinReward map[string]float64 `yaml:"min_reward" json:"min_reward"`

	// in seconds; 0: those of the task
	AgentTimeoutS float64 `yaml:"agent_timeout_s" json:"agent_timeout_s"`
	VerifierS     float64 `yaml:"verifier_s" json:"verifier_s"`
}

// HasSolution reports whether the task, or each of its steps, has a solution.
func (t Task) HasSolution() bool {
	if len(t.Steps) == 0 {
		return len(t.Solution) > 0
	}

	return !slices.ContainsFunc(t.Steps, func(s Step) bool { return len(s.Solution) == 0 })
}

// arguments are those of a step of the tools run_rollout and start_rollout.
func (s Step) arguments() map[string]any {
	args := map[string]any{"name": s.Name, "instruction": s.Instruction}
	set(args, "test_script", s.TestScript)
	set(args, "reward_key", s.RewardKey)
	set(args, "agent_timeout_s", s.AgentTimeoutS)
	set(args, "verifier_s", s.VerifierS)
	fileMap(args, "upload_files", s.Files)
	fileMap(args, "uploads", s.Uploads)
	fileMap(args, "test_files", s.TestFiles)
	lists(args, "setup", s.Setup)
	lists(args, "solution", s.Solution)
	lists(args, "verify", s.Verify)
	lists(args, "reward_range", s.RewardRange)

	if len(s.MinReward) > 0 {
		args["min_reward"] = s.MinReward
	}

	return args
}
