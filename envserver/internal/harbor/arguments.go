package harbor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
	"github.com/rolloutd/rolloutd/internal/text"
)

// maxTokensCap is HarborEnv's bound of a call's tokens.
const maxTokensCap = 8192

// modelArguments are the arguments of start_rollout that name a model endpoint.
var modelArguments = []string{"endpoint", "base_url", "api_key", "model", "model_key", "vllm_url", "hf_token"}

// providers maps HarborEnv's kinds of endpoints to the server's endpoint for calls without a URL; "": that
// of the environment.
var providers = map[string]string{"openai": "", "vllm": "vllm", "hf": "hf_router", "anthropic": ""}

// nativeProvider is the kind of endpoint that is called in the agent's own API.
const nativeProvider = "anthropic"

// ownEndpoint is the default endpoint.
const ownEndpoint = "vllm"

// plan is a rollout as its caller requested it.
type plan struct {
	id identity

	// the arguments of start_rollout
	args map[string]any

	// name of the reward
	key      string
	findings []string
}

// plan makes the arguments of start_rollout: the environment's defaults, then the task's, then the call's.
func (e *Env) plan(a runArgs) (plan, error) {
	p := plan{args: map[string]any{"max_tokens_cap": maxTokensCap, "on_disconnect": "abort"}, key: a.RewardKey}
	// HarborEnv translates the agents' own APIs to chat completions
	if a.Provider != nativeProvider {
		p.args["translate"] = string(rollout.TranslateChat)
	}

	p.id.Harness, p.id.Sandbox = a.Harness, a.Sandbox
	if err := e.check(a); err != nil {
		return p, err
	}

	maps.Copy(p.args, e.o.Defaults)

	if err := e.task(a, &p); err != nil {
		return p, err
	}

	p.args["agent"] = a.Harness
	e.sandbox(a, &p)
	model(a, p.args)
	bounds(a, p.args)

	if a.sampling != nil {
		p.args["sampling"] = a.sampling
	}

	if a.evalSampling != nil {
		p.args["eval_sampling"] = a.evalSampling
	}

	if a.Purpose != defaultPurpose {
		p.args["purpose"] = a.Purpose
	}

	if a.KeepSandbox {
		p.addFinding("keep_sandbox: sandboxes are removed in any case")
	}

	if a.ForceBuild {
		p.addFinding("force_build: images are not built here")
	}

	args, err := decoded(p.args)
	if p.args = args; a.RewardKey != "" {
		taskset.Change(args, map[string]any{"reward_key": a.RewardKey})
	}

	return p, err
}

func (p *plan) addFinding(format string, args ...any) {
	p.findings = append(p.findings, "[WARN] "+fmt.Sprintf(format, args...))
}

// check refuses values that this server does not support; the error lists the supported ones.
func (e *Env) check(a runArgs) error {
	_, known := providers[a.Provider]
	switch {
	case !slices.Contains(e.harnesses(), a.Harness):
		return &harnessError{
			fault.Field("harness", "no harness %q: must be one of %s",
				text.Head(a.Harness, maxName), strings.Join(e.harnesses(), ", ")),
		}
	case !slices.Contains(e.o.Backends, a.Sandbox) && !slices.Contains(harborSandboxes, a.Sandbox):
		return fault.Field("sandbox", "no sandbox %q: must be one of %s, or a name of Harbor's for the first of them",
			text.Head(a.Sandbox, maxName), strings.Join(e.o.Backends, ", "))
	case !known:
		return fault.Field("provider", "unknown upstream provider %q: must be openai, vllm, hf or anthropic",
			text.Head(a.Provider, maxName))
	case a.AgentTimeout < 0:
		return fault.Field("agent_timeout_sec", "must not be negative, got %g", a.AgentTimeout)
	case a.StepLimit < 0:
		return fault.Field("agent_step_limit", "must not be negative, got %d", a.StepLimit)
	case !rollout.NeedsModel(a.Harness):
		return nil
	default:
		return checkModel(a)
	}
}

// checkModel refuses arguments with which the endpoint cannot be called.
func checkModel(a runArgs) error {
	switch {
	case a.Provider == nativeProvider && a.LLMURL == "":
		return fault.Field("llm_url", "provider anthropic needs the base URL of its endpoint")
	case a.AuthHeader != "" && !strings.EqualFold(a.AuthHeader, "Authorization"):
		return fault.Field("auth_header", "keys are sent as Authorization, got %q", text.Head(a.AuthHeader, maxName))
	case a.LLMURL != "" && a.Model == "":
		return fault.Field("model", "give the name of the model that llm_url serves")
	}

	return nil
}

// harnessError means that there is no such harness. It is fatal: every rollout of the training run would fail.
type harnessError struct{ error }

func (e *harnessError) Unwrap() error { return e.error }

// harnesses returns the agents that work on a task without a client's calls.
func (e *Env) harnesses() []string {
	return slices.DeleteFunc(slices.Clone(e.o.Agents), func(name string) bool {
		return name == rollout.AgentInteractive
	})
}

// task adds the arguments of the task: the one in the call, or the one of split and task_index with the call's changes.
func (e *Env) task(a runArgs, p *plan) error {
	if a.task["instruction"] == nil {
		t, split, err := e.sets.task(a.Split, a.TaskIndex)
		if err != nil {
			return err
		}

		p.id.TaskID, p.id.TaskName, p.id.Dataset = t.ID, t.Name, split
		taskset.Change(p.args, t.Arguments())
	}

	taskset.Change(p.args, a.task)

	if id, ok := p.args["task_id"].(string); ok {
		p.id.TaskID = id
	}

	return nil
}

// sandbox sets the backend. HarborEnv's clients send one of Harbor's names by default.
func (e *Env) sandbox(a runArgs, p *plan) {
	if !slices.Contains(e.o.Backends, a.Sandbox) {
		p.id.Sandbox = e.o.Backends[0]
		return
	}

	setMember(p.args, "sandbox", "backend", a.Sandbox)
}

// model sets the model endpoint: that of the call, else of the task or the environment, else the default
// one. A harness without model calls gets none, so that its rollout depends on no endpoint.
func model(a runArgs, args map[string]any) {
	named := a.LLMURL != "" || providers[a.Provider] != ""
	if named || !rollout.NeedsModel(a.Harness) {
		for _, name := range modelArguments {
			delete(args, name)
		}
	}

	switch {
	case !rollout.NeedsModel(a.Harness):
		return
	case a.LLMURL != "":
		args["base_url"], args["api_key"] = a.LLMURL, a.APIKey
	case named:
		args["endpoint"] = providers[a.Provider]
	case args["endpoint"] == nil && args["base_url"] == nil && args["model_key"] == nil:
		args["endpoint"] = ownEndpoint
	}

	if a.Model != "" {
		args["model"] = a.Model
	}
}

func bounds(a runArgs, args map[string]any) {
	if a.AgentTimeout > 0 {
		args["agent_timeout_s"] = a.AgentTimeout
	}

	if a.StepLimit > 0 {
		setMember(args, "limits", "turns", a.StepLimit)
	}
}

// setMember sets a member of an object argument, in a copy: the object belongs to the caller.
func setMember(args map[string]any, object, member string, v any) {
	all, _ := args[object].(map[string]any)
	if all = maps.Clone(all); all == nil {
		all = map[string]any{}
	}

	all[member] = v
	args[object] = all
}

// decoded converts arguments to the form in which tools read them, that of decoded JSON.
func decoded(args map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "task")
	}

	var out map[string]any

	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()

	return out, fault.Wrap(fault.Invalid, dec.Decode(&out), "task")
}
