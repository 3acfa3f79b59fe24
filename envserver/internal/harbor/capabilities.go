package harbor

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/arguments"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Table returns the table of HarborEnv's three tools, in its order.
func (e *Env) Table() (*tools.Table, error) {
	run, err := runSchema()
	if err != nil {
		return nil, err
	}

	list, err := arguments.SchemaOf(listArgs{Stop: defaultStop})
	if err != nil {
		return nil, err
	}

	nothing := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}

	return e.o.Table.WithTools([]tools.Tool{
		{
			Name:        "run_rollout",
			Description: "Run one rollout of a task and return a HarborRolloutResult, as JSON.",
			InputSchema: run,
			Run:         e.run,
		},
		{
			Name:        "capabilities",
			Description: "List the agents, sandbox backends, task sets and the model endpoint of this server.",
			InputSchema: nothing,
			Run:         e.capabilities,
		},
		{
			Name:        "list_tasks",
			Description: "List the tasks of a task set, from start to stop.",
			InputSchema: list,
			Run:         e.listTasks,
		},
	}), nil
}

// defaultStop is the default of the argument stop of list_tasks.
const defaultStop = 20

type listArgs struct {
	Split string `json:"split,omitempty" jsonschema:"name of the task set; empty: the first one"`
	Start int    `json:"start,omitempty" jsonschema:"start of the range of tasks, inclusive; negative counts from the end"`
	Stop  int    `json:"stop,omitempty" jsonschema:"end of the range of tasks, exclusive; negative counts from the end"`
}

func (e *Env) listTasks(_ context.Context, c tools.Call) (*tools.Text, error) {
	a := listArgs{Stop: defaultStop}
	if err := arguments.Decode(c.Tool, c.Args, &a); err != nil {
		return nil, err
	}

	all, err := e.sets.refs(a.Split, &a.Start, &a.Stop)
	if err != nil {
		return nil, err
	}

	return tools.Write(all)
}

// capabilitySet is the answer of the tool capabilities.
type capabilitySet struct {
	Harnesses []harness  `json:"harnesses"`
	Sandboxes []sandbox  `json:"sandboxes"`
	Datasets  []Split    `json:"datasets"`
	LLM       llmOfCalls `json:"llm"`
}

type harness struct {
	Name    string `json:"name"`
	Dialect string `json:"dialect"`

	// installed: it runs in the sandbox; base: on the host
	Kind          string `json:"kind"`
	Status        string `json:"status"`
	NeedsSubclass bool   `json:"needs_subclass"`
	Notes         string `json:"notes"`
}

type sandbox struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Detail    string `json:"detail"`
}

// llmOfCalls is the endpoint of calls without a URL. Its properties are in the results of rollouts, which probe it.
type llmOfCalls struct {
	URL           string   `json:"url"`
	Model         string   `json:"model"`
	OK            bool     `json:"ok"`
	Findings      []string `json:"findings"`
	ServedModels  []string `json:"served_models"`
	CaptureLevel  string   `json:"capture_level"`
	RolloutType   string   `json:"rollout_type"`
	Trainable     *bool    `json:"trainable"`
	Reachable     *bool    `json:"reachable"`
	ParamFixes    []string `json:"param_fixes"`
	LogprobsMode  string   `json:"logprobs_mode"`
	ToolSupport   *bool    `json:"tool_support"`
	Authenticated bool     `json:"authenticated"`
}

func (e *Env) capabilities(_ context.Context, c tools.Call) (*tools.Text, error) {
	var none struct{}
	if err := arguments.Decode(c.Tool, c.Args, &none); err != nil {
		return nil, err
	}

	all := capabilitySet{Datasets: e.sets.splits(), LLM: e.llm()}
	for _, name := range e.harnesses() {
		all.Harnesses = append(all.Harnesses, describeHarness(name))
	}

	for i, name := range e.o.Backends {
		s := sandbox{Name: name, Available: true}
		if i == 0 {
			s.Detail = "default; names of Harbor's that are no backend here mean it, too"
		}

		all.Sandboxes = append(all.Sandboxes, s)
	}

	return tools.Write(all)
}

// dialects are the model APIs of agents that do not use chat completions.
var dialects = map[string]string{
	"codex":       "openai_responses",
	"claude-code": "anthropic",
	"gemini-cli":  "gemini",
	"oracle":      "none",
	"nop":         "none",
}

func describeHarness(name string) harness {
	h := harness{Name: name, Dialect: "openai_chat", Kind: "installed", Status: "validated"}
	if d := dialects[name]; d != "" {
		h.Dialect = d
	}

	if name == rollout.AgentReact || !rollout.NeedsModel(name) {
		h.Kind = "base"
	}

	return h
}

// llm returns the endpoint of a call that names none.
func (e *Env) llm() llmOfCalls {
	out := llmOfCalls{Findings: []string{}, ServedModels: []string{}, ParamFixes: []string{}}
	args := map[string]any{}

	for _, name := range modelArguments {
		if v, ok := e.o.Defaults[name]; ok {
			args[name] = v
		}
	}

	model(runArgs{Provider: defaultProvider}, args)

	text := func(name string) string { s, _ := args[name].(string); return s }

	m, key, err := e.o.Resolve(catalog.Request{
		ModelKey: text("model_key"), VLLMURL: text("vllm_url"), HFToken: text("hf_token"),
		Endpoint: text("endpoint"), BaseURL: text("base_url"), APIKey: text("api_key"), Model: text("model"),
	})
	if err != nil {
		out.Findings = append(out.Findings, "[WARN] no_endpoint: "+err.Error()+"; give llm_url with each call")
		return out
	}

	out.URL, out.Model, out.OK, out.Authenticated = m.BaseURL, m.Name, true, key != ""
	out.Findings = append(
		out.Findings,
		"[INFO] not_probed: a rollout asks the endpoint what it gives and has the answer in its result",
	)

	return out
}

// harborSandboxes are Harbor's names of sandboxes. Clients send them by default.
var harborSandboxes = []string{
	"docker", "podman", "daytona", "e2b", "modal", "runloop", "langsmith", "ec2", "gke", "ack", "openshift",
	"novita", "apple-container", "singularity", "islo", "tensorlake", "cwsandbox", "use-computer", "cua-cloud",
	"blaxel", "opensandbox", "beam", "skypilot", "hf-sandbox", "hyperbrowser", "vercel", "runta", "prime",
	"kata", "mosaic", "smol",
}
