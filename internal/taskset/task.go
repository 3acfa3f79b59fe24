package taskset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Task has the fields of a task file: what the agent does, the files it finds, and how its work is graded.
// Absent fields are not sent, so that the server's defaults apply.
type Task struct {
	// unique in its set; empty for a task of no set
	Name string `yaml:"-" json:"-"`

	// where the task is: a path, with the line in a file of JSON lines
	Source string `yaml:"-" json:"-"`
	// Local has the files of Uploads beside the task file: paths by SHA-256 in hex. A client uploads them
	// before it sends the task.
	Local map[string]string `yaml:"-" json:"-"`
	// Build is the image of Sandbox if it is built of the task's folder; nil: it is not. A client builds it before
	// it sends the task to a server on its machine.
	Build *Build `yaml:"-" json:"-"`
	// VerifierBuild is the same for the image of Verifier.
	VerifierBuild *Build `yaml:"-" json:"-"`
	// Notes say what in the task's files has no effect.
	Notes []string `yaml:"-" json:"-"`
	// ServiceBuilds are those of the services of Sandbox.
	ServiceBuilds []*Build `yaml:"-" json:"-"`

	ID          string `yaml:"id" json:"id"`
	Instruction string `yaml:"instruction" json:"instruction"`

	// path (relative to the workdir) → text, written before the agent starts
	Files map[string]string `yaml:"files" json:"files"`

	// path → a file beside the task file, or the SHA-256 of an upload
	Uploads map[string]string `yaml:"uploads" json:"uploads"`

	// bash commands before the agent starts; a failure ends the rollout
	Setup []string `yaml:"setup" json:"setup"`

	// bash commands that solve the task, run by the agent oracle
	Solution []string `yaml:"solution" json:"solution"`

	// bash commands that grade; the reward is the share that passes
	Verify []string `yaml:"verify" json:"verify"`

	// a bash script that writes the reward file
	TestScript string `yaml:"test_script" json:"test_script"`

	// external: a client grades; image, artifacts: the verifier's own image, and what it gets; the server checks them
	Verifier map[string]any `yaml:"verifier" json:"verifier"`

	// name in the tests folder → text, written when grading begins
	TestFiles   map[string]string `yaml:"test_files" json:"test_files"`
	RewardRange []float64         `yaml:"reward_range" json:"reward_range"`

	// the reward among several in reward.json
	RewardKey string `yaml:"reward_key" json:"reward_key"`

	// Steps are parts of the task, which run in order; the task has no files, setup, solution and verifier then.
	Steps []Step `yaml:"steps" json:"steps"`

	// the reward of a task with steps: mean or final
	RewardStrategy string `yaml:"reward_strategy" json:"reward_strategy"`

	// null, quoted or not
	OnTimeout yaml.Node `yaml:"on_timeout" json:"-"`

	AgentTimeoutS float64 `yaml:"agent_timeout_s" json:"agent_timeout_s"`

	// ≤ 0: none
	MaxTokensCap *int   `yaml:"max_tokens_cap" json:"max_tokens_cap"`
	TopLogprobs  *int   `yaml:"top_logprobs" json:"top_logprobs"`
	Mode         string `yaml:"mode" json:"mode"`
	Template     string `yaml:"template" json:"template"`
	Agent        string `yaml:"agent" json:"agent"`

	// configuration of the agent react; the server checks it
	React   map[string]any `yaml:"react" json:"react"`
	GroupID string         `yaml:"group_id" json:"group_id"`

	// turns, prompt_tokens, completion_tokens …; the server checks them
	Limits map[string]any `yaml:"limits" json:"limits"`

	// prompt, completion, cached_prompt: US dollars per million tokens; the server checks them
	Price map[string]any `yaml:"price" json:"price"`

	// chat_completions or none; absent: the server's configuration
	Translate string `yaml:"translate" json:"translate"`

	// auto, train or eval
	Purpose string `yaml:"purpose" json:"purpose"`

	// temperature, seed, max_tokens …, of every model call
	Sampling map[string]any `yaml:"sampling" json:"sampling"`

	// parameters of every model call with purpose eval, in place of sampling
	EvalSampling map[string]any `yaml:"eval_sampling" json:"eval_sampling"`

	// cpu, memory_mib, disk_mib …; the server checks them
	Sandbox map[string]any `yaml:"sandbox" json:"sandbox"`

	// allow, setup, agent: hosts that the task may reach; the server checks them
	Network map[string]any `yaml:"network" json:"network"`

	// true: all hosts that the operator allows
	AllowNetwork *bool `yaml:"allow_network" json:"allow_network"`

	// RequireSandbox and RequireStateful are accepted: no rollout runs without a sandbox.
	RequireSandbox  bool `yaml:"require_sandbox" json:"require_sandbox"`
	RequireStateful bool `yaml:"require_stateful_sandbox" json:"require_stateful_sandbox"`
}

// Builds are the images that are built of the task's folder.
func (t Task) Builds() []*Build {
	return slices.DeleteFunc(append([]*Build{t.Build, t.VerifierBuild}, t.ServiceBuilds...), func(b *Build) bool {
		return b == nil
	})
}

// Digest is the SHA-256 of the task's arguments, in hex. It does not depend on the task's place.
func (t Task) Digest() (string, error) {
	// the keys of maps are sorted
	text, err := json.Marshal(t.Arguments())
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "%s", t.Source)
	}

	sum := sha256.Sum256(text)

	return hex.EncodeToString(sum[:]), nil
}

// Arguments returns the task as arguments of the tools run_rollout and start_rollout.
func (t Task) Arguments() map[string]any {
	args := map[string]any{"instruction": t.Instruction}
	if t.Instruction == "" && len(t.Steps) > 0 {
		args["instruction"] = t.Steps[0].Instruction
	}

	set(args, "task_id", t.ID)
	set(args, "test_script", t.TestScript)
	set(args, "reward_key", t.RewardKey)
	set(args, "mode", t.Mode)
	set(args, "template", t.Template)
	set(args, "agent", t.Agent)
	set(args, "group_id", t.GroupID)
	set(args, "purpose", t.Purpose)
	set(args, "translate", t.Translate)
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
	fileMap(args, "uploads", t.Uploads)
	fileMap(args, "test_files", t.TestFiles)
	lists(args, "setup", t.Setup)
	lists(args, "solution", t.Solution)
	lists(args, "verify", t.Verify)
	lists(args, "reward_range", t.RewardRange)
	objects(args, "react", t.React)
	objects(args, "limits", t.Limits)
	objects(args, "price", t.Price)
	objects(args, "sandbox", t.Sandbox)
	objects(args, "network", t.Network)

	if t.AllowNetwork != nil {
		args["allow_network"] = *t.AllowNetwork
	}

	objects(args, "sampling", t.Sampling)
	objects(args, "eval_sampling", t.EvalSampling)
	objects(args, "verifier", t.Verifier)
	set(args, "reward_strategy", t.RewardStrategy)

	steps := make([]any, len(t.Steps))
	for n, s := range t.Steps {
		steps[n] = s.arguments()
	}

	lists(args, "steps", steps)

	return args
}

// Change sets arguments of a rollout in place of a task's own. Of limits, sandbox and verifier it sets single fields: another
// way to grade leaves the image of the task's verifier, and a time for calls the task's time for its tests. reward_key is
// that of each test script, of the task or of its steps. A way to grade that the task cannot have is left out: it is meant for
// all tasks of a set.
func Change(args, changes map[string]any) {
	before := maps.Clone(args)
	maps.Copy(args, changes)

	for _, name := range []string{"limits", "sandbox", "verifier"} {
		own, _ := before[name].(map[string]any)

		if changed, ok := changes[name].(map[string]any); ok && len(own) > 0 {
			merged := maps.Clone(own)
			maps.Copy(merged, changed)
			args[name] = merged
		}
	}

	if takesGrade(before) && takesGrade(changes) && !takesGrade(args) {
		keepGrade(args, before)
	}

	if key, ok := changes["reward_key"]; ok {
		changeRewardKey(args, key)
	}
}

// takesGrade reports whether a task with these arguments can be graded as they say. A verifier with an image of its own has
// no services of the agent and none of its files; in shared grading the agent of the next step could read the tests.
func takesGrade(args map[string]any) bool {
	verifier, _ := args["verifier"].(map[string]any)
	steps, _ := args["steps"].([]any)

	switch GradeOf(args) {
	case rollout.GradeLive:
		return verifier["image"] == nil
	case rollout.GradeShared:
		return verifier["image"] == nil && len(steps) == 0
	default:
		return true
	}
}

// keepGrade gives arguments the way to grade that they had before, or the default if they cannot have that either.
func keepGrade(args, before map[string]any) {
	verifier, _ := args["verifier"].(map[string]any)
	verifier = maps.Clone(verifier)
	verifier["grade"] = GradeOf(before)
	args["verifier"] = verifier

	if !takesGrade(args) {
		delete(verifier, "grade")
	}
}

func changeRewardKey(args map[string]any, key any) {
	steps, _ := args["steps"].([]any)
	for _, s := range steps {
		if step, ok := s.(map[string]any); ok && step["test_script"] != nil {
			step["reward_key"] = key
		}
	}

	if len(steps) > 0 && args["test_script"] == nil {
		delete(args, "reward_key")
	}
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
