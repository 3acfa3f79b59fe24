package cli

import "maps"

// Task is a task file: what the agent does, the files it finds, and how its work is graded. Fields that are absent are not sent, so
// that the server's defaults apply.
type Task struct {
	ID          string            `yaml:"id"`
	Instruction string            `yaml:"instruction"`
	Files       map[string]string `yaml:"files"`       // path (relative to the workdir) → text, written before the agent starts
	Setup       []string          `yaml:"setup"`       // bash commands before the agent starts; a failure ends the rollout
	Verify      []string          `yaml:"verify"`      // bash commands that grade; the reward is the share that passes
	TestScript  string            `yaml:"test_script"` // a bash script that writes the reward file

	AgentTimeoutS float64        `yaml:"agent_timeout_s"`
	MaxTokensCap  *int           `yaml:"max_tokens_cap"` // ≤ 0: none
	TopLogprobs   *int           `yaml:"top_logprobs"`
	Mode          string         `yaml:"mode"`
	Template      string         `yaml:"template"`
	Agent         string         `yaml:"agent"`
	GroupID       string         `yaml:"group_id"`
	Limits        map[string]any `yaml:"limits"`  // turns, prompt_tokens, completion_tokens …; the server checks them
	Sandbox       map[string]any `yaml:"sandbox"` // cpu, memory_mib, disk_mib …; the server checks them
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
	set(args, "agent_timeout_s", t.AgentTimeoutS)
	if t.MaxTokensCap != nil {
		args["max_tokens_cap"] = *t.MaxTokensCap
	}
	if t.TopLogprobs != nil {
		args["top_logprobs"] = *t.TopLogprobs
	}
	if len(t.Files) > 0 {
		args["upload_files"] = maps.Clone(t.Files)
	}
	lists(args, "setup", t.Setup)
	lists(args, "verify", t.Verify)
	objects(args, "limits", t.Limits)
	objects(args, "sandbox", t.Sandbox)
	return args
}

func set[T comparable](args map[string]any, name string, v T) {
	var zero T
	if v != zero {
		args[name] = v
	}
}

func lists(args map[string]any, name string, v []string) {
	if len(v) > 0 {
		args[name] = v
	}
}

func objects(args map[string]any, name string, v map[string]any) {
	if len(v) > 0 {
		args[name] = v
	}
}
