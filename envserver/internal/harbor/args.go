package harbor

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/arguments"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// runArgs are HarborEnv's arguments of run_rollout, in its order. start_rollout checks the arguments that are objects.
type runArgs struct {
	Split        string  `json:"split,omitempty" jsonschema:"name of the task set; empty: the first one"`
	TaskIndex    int     `json:"task_index,omitempty" jsonschema:"index of the task in its set, from 0"`
	Harness      string  `json:"harness,omitempty" jsonschema:"name of the agent; capabilities lists them"`
	Sandbox      string  `json:"sandbox,omitempty" jsonschema:"name of the sandbox backend. Harbor's names that this server does not have mean its default backend"`
	RewardKey    string  `json:"reward_key,omitempty" jsonschema:"name of the reward in reward.json, or several separated by commas: the first that is there counts"`
	KeepSandbox  bool    `json:"keep_sandbox,omitempty" jsonschema:"accepted for compatibility; sandboxes are always removed"`
	ForceBuild   bool    `json:"force_build,omitempty" jsonschema:"accepted for compatibility; this server builds no images"`
	LLMURL       string  `json:"llm_url,omitempty" jsonschema:"base URL of the model endpoint; empty: the endpoint in the server's configuration"`
	Model        string  `json:"model,omitempty" jsonschema:"name of the model at the endpoint"`
	APIKey       string  `json:"api_key,omitempty" jsonschema:"API key for llm_url"`
	AuthHeader   string  `json:"auth_header,omitempty" jsonschema:"must be Authorization, which is the header that carries the key"`
	AgentTimeout float64 `json:"agent_timeout_sec,omitempty" jsonschema:"time limit of the agent, in seconds of wall time; 0: the task's limit"`
	StepLimit    int     `json:"agent_step_limit,omitempty" jsonschema:"largest number of model calls; 0: no bound"`
	Provider     string  `json:"provider,omitempty" jsonschema:"kind of the endpoint: openai, vllm, hf or anthropic"`
	Purpose      string  `json:"purpose,omitempty" jsonschema:"auto, eval or train"`

	sampling, evalSampling, task map[string]any
}

// Defaults that HarborEnv publishes.
const (
	defaultSandbox  = "e2b"
	defaultProvider = "openai"
	defaultPurpose  = "auto"
)

func defaultArgs() runArgs {
	return runArgs{
		Harness:  rollout.AgentOpencode,
		Sandbox:  defaultSandbox,
		Provider: defaultProvider,
		Purpose:  defaultPurpose,
	}
}

// objects are the arguments that are objects, with their descriptions.
var objects = []struct{ name, about string }{
	{"sampling", "training policy of every model call"},
	{"eval_sampling", "parameters of every model call with purpose eval"},
	{
		"task",
		"arguments of start_rollout: a task by itself where it has an instruction, else what it changes in the task of split and task_index",
	},
}

func runSchema() (*jsonschema.Schema, error) {
	s, err := arguments.SchemaOf(defaultArgs())
	if err != nil {
		return nil, err
	}

	for _, o := range objects {
		s.Properties[o.name] = &jsonschema.Schema{Types: []string{"null", "object"}, Description: o.about}
		s.PropertyOrder = append(s.PropertyOrder, o.name)
	}

	return s, nil
}

// readArgs reads the arguments of run_rollout.
func readArgs(args map[string]any) (runArgs, error) {
	a := defaultArgs()

	plain := map[string]any{}
	for name, v := range args {
		plain[name] = v
	}

	for _, o := range objects {
		m, ok := plain[o.name].(map[string]any)
		if !ok && plain[o.name] != nil {
			return a, fault.Field(o.name, "must be an object")
		}

		delete(plain, o.name)
		*map[string]*map[string]any{
			"sampling":      &a.sampling,
			"eval_sampling": &a.evalSampling,
			"task":          &a.task,
		}[o.name] = m
	}

	return a, arguments.Decode("run_rollout", plain, &a)
}
