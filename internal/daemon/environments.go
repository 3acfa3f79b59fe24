package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/taskset"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// listTime bounds the listing of the tools of servers outside the sandboxes.
const listTime = 10 * time.Second

// episodeEnvironments makes the environments of a configuration. tools has the toolsets of the workers; its
// servers are queried when a client lists the tools of an environment.
func episodeEnvironments(c config.Config, tools *tool.Registry) ([]envserver.Environment, error) {
	all := c.Episodes()

	var list []envserver.Environment

	for _, name := range slices.Sorted(maps.Keys(all)) {
		e, err := environment(c, name, tools)
		if err != nil {
			return nil, fmt.Errorf("environments.%s: %w", name, err)
		}

		list = append(list, e)
	}

	return list, nil
}

func environment(all config.Config, name string, tools *tool.Registry) (envserver.Environment, error) {
	c := all.Episodes()[name]
	e := envserver.Environment{
		Name:        name,
		Description: cmp.Or(c.Description, "Interactive episodes: the tools of a sandbox, and a grade at the end."),
		Defaults:    defaultsOf(c),
	}

	selected, err := tools.Select(c.EnabledToolsets, c.DisabledToolsets)
	if err != nil {
		return e, err
	}

	e.Tools = func(ctx context.Context) ([]envserver.Tool, error) { return policyTools(ctx, selected) }
	if c.TaskSet == "" {
		return e, nil
	}

	set, err := taskset.Open(all.TaskSets[c.TaskSet].Path)
	if err != nil {
		return e, err
	}
	// open until the process ends
	e.Tasks = pickedTasks{set}

	return e, nil
}

// harborEnvironment is the environment of HarborEnv's clients.
func harborEnvironment(c config.Config) *envserver.Harbor {
	e := c.Environments[config.HarborEnvironment]
	return &envserver.Harbor{TaskSet: e.TaskSet, Arguments: e.Arguments}
}

// defaultsOf are the arguments of start_rollout for the environment's resets.
func defaultsOf(c config.Environment) map[string]any {
	args := map[string]any{"agent_timeout_s": cmp.Or(c.Life, config.DefaultLife).Seconds()}
	maps.Copy(args, c.Arguments)
	args["episode"] = map[string]any{
		"enabled_toolsets": c.EnabledToolsets, "disabled_toolsets": c.DisabledToolsets,
		"max_steps": c.MaxSteps, "idle_s": c.Idle.Seconds(),
	}

	return args
}

// policyTools lists the tools of an environment's policy, with the current tools of servers outside the sandboxes.
func policyTools(ctx context.Context, selected *tool.Selection) ([]envserver.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()

	set, err := selected.Bind(ctx, tool.Env{})
	if err != nil {
		return nil, err
	}

	var all []envserver.Tool

	for _, t := range set.Definitions() {
		var schema jsonschema.Schema
		if err := json.Unmarshal(t.Parameters, &schema); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "tool %s: parameters", t.Name)
		}

		all = append(all, envserver.Tool{Name: t.Name, Description: t.Description, InputSchema: &schema})
	}

	return all, nil
}

// pickedTasks picks tasks of a set.
type pickedTasks struct{ set *taskset.Set }

// Pick implements envserver.Tasks. A seed picks the same task each time.
func (p pickedTasks) Pick(id string, seed int64) (map[string]any, error) {
	// any seed picks a task
	i := int(uint64(seed) % uint64(p.set.Len()))

	if id != "" {
		var found bool
		if i, found = p.set.Find(id); !found {
			return nil, fault.Field("task_id", "the task set has no task %q", id)
		}
	}

	t, err := p.set.Task(i)

	return t.Arguments(), err
}
