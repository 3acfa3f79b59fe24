// Package oracle has two agents for task authors. "oracle" runs the task's own solution, so a correct task gives it the full reward. "nop"
// does nothing, so a correct task gives it reward 0. Neither needs a model.
package oracle

import (
	"context"
	"strings"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Oracle is the entry of the agent "oracle" in the registry.
func Oracle() agent.Kind {
	return agent.Kind{Name: rollout.AgentOracle, Agent: script{rollout.AgentOracle, solve}, NoModel: true}
}

// Nop is the entry of the agent "nop" in the registry.
func Nop() agent.Kind {
	return agent.Kind{Name: rollout.AgentNop, Agent: script{rollout.AgentNop, doNothing}, NoModel: true}
}

// script is an agent that is one bash process. Every sandbox has bash.
type script struct {
	name    string
	process func(agent.Job) (wire.Process, error)
}

var _ agent.Agent = script{}

// Open implements agent.Agent.
func (s script) Open(ctx context.Context, env agent.Env, job agent.Job) (agent.Run, error) {
	launch, err := agent.OpenProcess(ctx, env.Sandbox, job.Launch, func() (wire.Process, error) { return s.process(job) })
	if err != nil {
		return nil, err
	}
	return s.run(env, launch), nil
}

// Attach implements agent.Agent.
func (s script) Attach(ctx context.Context, env agent.Env, _ agent.Job) (agent.Run, error) {
	launch, err := agent.AttachProcess(ctx, env.Sandbox)
	if err != nil {
		return nil, err
	}
	return s.run(env, launch), nil
}

// run counts a running process as alive: a solution may compile for long and write nothing.
func (s script) run(env agent.Env, l agent.Launch) agent.Run {
	return agent.NewProcessRun(agent.ProcessRunOptions{Name: s.name, Sandbox: env.Sandbox, AlwaysAlive: true}, l)
}

// solver runs the commands from its stdin, each in its own shell, until one fails. Arguments would be limited to 128 KiB each.
const solver = `n=0
while IFS= read -r -d '' command; do
  n=$((n + 1))
  (eval "$command") </dev/null
  code=$? # a list with || would switch a solution's set -e off
  if ((code)); then echo "solution command $n failed" >&2; exit $code; fi
done`

func solve(job agent.Job) (wire.Process, error) {
	if len(job.Solution) == 0 {
		return wire.Process{}, fault.Field("solution", "the task has no solution to run")
	}
	p := bash(solver)
	p.Stdin = []byte(strings.Join(job.Solution, "\x00") + "\x00")
	return p, nil
}

func doNothing(agent.Job) (wire.Process, error) { return bash(":"), nil }

func bash(command string) wire.Process {
	return wire.Process{
		Argv: []string{"bash", "--noprofile", "--norc", "-c", command}, Dir: rollout.Workdir,
		Env: map[string]string{"LANG": "C.UTF-8", "USER": "user"},
	}
}
