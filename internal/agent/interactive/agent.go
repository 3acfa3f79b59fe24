// Package interactive is the agent whose tool calls come from a client: an OpenEnv episode, or an external
// agent loop. Its Run ends when the client submits, when the maximum of calls is reached, or when it has
// been idle for too long.
package interactive

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Agent implements agent.Agent. A process in the sandbox that ends at once records the launch, so that the
// age of the episode outlives the worker. It is safe for concurrent use.
type Agent struct{}

var _ agent.Agent = Agent{}

// Kind is the entry in the registry.
func Kind() agent.Kind {
	return agent.Kind{Name: rollout.AgentInteractive, Agent: Agent{}, NoModel: true, OnHost: true}
}

// Open implements agent.Agent.
func (Agent) Open(ctx context.Context, env agent.Env, job agent.Job) (agent.Run, error) {
	launch, err := agent.OpenMark(ctx, env.Sandbox, job.Launch, "the episode")
	if err != nil {
		return nil, err
	}

	return newRun(env, job, launch), nil
}

// Attach implements agent.Agent.
func (Agent) Attach(ctx context.Context, env agent.Env, job agent.Job) (agent.Run, error) {
	launch, err := agent.AttachProcess(ctx, env.Sandbox)
	if err != nil {
		return nil, err
	}

	return newRun(env, job, launch), nil
}
