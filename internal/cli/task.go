package cli

import (
	"maps"

	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Task is a task file: what the agent does, the files it finds, and how its work is graded. Fields that are absent are not sent, so
// that the server's defaults apply.
type Task struct {
	ID          string            `yaml:"id"`
	Instruction string            `yaml:"instruction"`
	Files       map[string]string `yaml:"files"`       // path (relative to the workdir) → text, written before the agent starts
	Setup       []string          `yaml:"setup"`       // bash commands before the agent starts; a failure ends the rollout
	Solution    []string          `yaml:"solution"`    // bash commands that solve the task, run by the agent oracle
	Verify      []string          `yaml:"verify"`      // bash commands that grade; the reward is the share that passes
	TestScript  string            `yaml:"test_script"` // a bash script that writes the reward file
	TestFiles   map[string]string `yaml:"test_files"`  // name in the tests folder → text, written when grading begins
	RewardRange []float64         `yaml:"reward_range"`
	OnTimeout   yaml.Node         `yaml:"on_timeout"` // null, quoted or not

	AgentTimeoutS float64        `yaml:"agent_timeout_s"`
	MaxTokensCap  *int           `yaml:"max_tokens_cap"` // ≤ 0: none
	TopLogprobs   *int           `yaml:"top_logprobs"`
	Mode          string         `yaml:"mode"`
	Template      string         `yaml:"template"`
	Agent         string         `yaml:"agent"`
	React         map[string]any `yaml:"react"` // configuration of the agent react; the server checks it
	GroupID       string         `yaml:"group_id"`
	Limits        map[string]any `yaml:"limits"`        // turns, prompt_tokens, completion_tokens …; the server checks them
	Purpose       string         `yaml:"purpose"`       // auto, train or eval
	Sampling      map[string]any `yaml:"sampling"`      // temperature, seed, max_tokens …, of every model call
	EvalSampling  map[string]any `yaml:"eval_sampling"` // the same with purpose eval
	Sandbox       map[string]any `yaml:"sandbox"`       // cpu, memory_mib, disk_mib …; the server checks them
}

// Arguments returns the task as arguments of the tools run_rollout and start_rollout.
func (t Task) Arguments() map[string]any {
	args := map[string]any{"instruction": t.Instruction}
	set(args, "task_id", t.ID)
	set(args, "test_script", t.TestScript)
	set(args, "mode", t.Mode)
	set(args, "template", t.Template)
	set(args, "agent", t.Agent)
	set(args, "group_id", t.GroupID)
	set(args, "purpose", t.Purpose)
	set(args, "agent_timeout_s", t.AgentTimeoutS)
	if t.MaxTokensCap != nil {
		args["max_tokens_cap"] = *t.MaxTokensCap
	}
	if t.TopLogprobs != nil {
		args["top_logprobs"] = *t.TopLogprobs
	}
	if !t.OnTimeout.IsZero() && t.OnTimeout.ShortTag() == "!!null" {
		args["on_timeout"] = rollout.TimeoutNull
	} else {
		set(args, "on_timeout", t.OnTimeout.Value)
	}
	fileMap(args, "upload_files", t.Files)
	fileMap(args, "test_files", t.TestFiles)
	lists(args, "setup", t.Setup)
	lists(args, "solution", t.Solution)
	lists(args, "verify", t.Verify)
	lists(args, "reward_range", t.RewardRange)
	objects(args, "react", t.React)
	objects(args, "limits", t.Limits)
	objects(args, "sandbox", t.Sandbox)
	objects(args, "sampling", t.Sampling)
	objects(args, "eval_sampling", t.EvalSampling)
	return args
}

func set[T comparable](args map[string]any, name string, v T) {
	var zero T
	if v != zero {
		args[name] = v
	}
}

func fileMap(args map[string]any, name string, v map[string]string) {
	if len(v) > 0 {
		args[name] = maps.Clone(v)
	}
}

func lists[T any](args map[string]any, name string, v []T) {
	if len(v) > 0 {
		args[name] = v
	}
}

func objects(args map[string]any, name string, v map[string]any) {
	if len(v) > 0 {
		args[name] = v
	}
}
