package agent

import (
	"context"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// NewOracle is the entry of the agent "oracle" in the registry.
func NewOracle() Kind {
	return Kind{Name: rollout.AgentOracle, Agent: script{rollout.AgentOracle, solve}, NoModel: true}
}

// NewNop is the entry of the agent "nop" in the registry.
func NewNop() Kind {
	return Kind{Name: rollout.AgentNop, Agent: script{rollout.AgentNop, doNothing}, NoModel: true}
}

// script is an agent that is one bash process. Every sandbox has bash.
type script struct {
	name    string
	process func(Job) (wire.Process, error)
}

var _ Agent = script{}

// Open implements agent.Agent.
func (s script) Open(ctx context.Context, env Env, job Job) (Run, error) {
	launch, err := OpenProcess(ctx, env.Sandbox, job.Launch, func() (wire.Process, error) { return s.process(job) })
	if err != nil {
		return nil, err
	}

	return s.run(env, launch), nil
}

// Attach implements agent.Agent.
func (s script) Attach(ctx context.Context, env Env, _ Job) (Run, error) {
	launch, err := AttachProcess(ctx, env.Sandbox)
	if err != nil {
		return nil, err
	}

	return s.run(env, launch), nil
}

// run counts a running process as alive: a solution may compile for long and write nothing.
func (s script) run(env Env, l Launch) Run {
	return NewProcessRun(ProcessRunOptions{Name: s.name, Sandbox: env.Sandbox, AlwaysAlive: true}, l)
}

// solver runs the commands from its stdin, each in its own shell, until one fails. Arguments would be
// limited to 128 KiB each.
const solver = `n=0
while IFS= read -r -d '' command; do
  n=$((n + 1))
  (eval "$command") </dev/null
  code=$? # a list with || would switch a solution's set -e off
  if ((code)); then echo "solution command $n failed" >&2; exit $code; fi
done`

func solve(job Job) (wire.Process, error) {
	if len(job.Solution) == 0 {
		return wire.Process{}, fault.Field("solution", "the task has no solution to run")
	}

	p := bash(solver)
	p.Stdin = []byte(strings.Join(job.Solution, "\x00") + "\x00")

	return p, nil
}

func doNothing(Job) (wire.Process, error) { return bash(":"), nil }

func bash(command string) wire.Process {
	return wire.Process{
		Argv: []string{"bash", "--noprofile", "--norc", "-c", command}, Dir: rollout.Workdir,
		Env: map[string]string{"LANG": "C.UTF-8", "USER": "user"},
	}
}
