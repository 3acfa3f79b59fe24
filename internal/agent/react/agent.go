package react

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Agent implements agent.Agent with a loop on the host. It keeps no state: a process in the sandbox that
// ends at once records the launch, so that its number and age outlive the worker. It is safe for concurrent
// use.
type Agent struct{}

var _ agent.Agent = Agent{}

// Kind is the entry in the registry. The transcript has OpenCode's form; the caller adds the matching log.
func Kind() agent.Kind {
	return agent.Kind{Name: rollout.AgentReact, Agent: Agent{}, OnHost: true}
}

// Open implements agent.Agent.
func (Agent) Open(ctx context.Context, env agent.Env, job agent.Job) (agent.Run, error) {
	launch, err := agent.OpenMark(ctx, env.Sandbox, job.Launch, "react")
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
