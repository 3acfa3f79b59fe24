package command

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"strings"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Options configure the agents of a host.
type Options struct {
	// folder of agents on this host; the local sandbox driver mounts it into its sandboxes
	AgentsDir string

	// the npm command; "" is npm from PATH
	NPM string

	// architecture of the sandboxes, as GOARCH; "" is this host's
	Arch   string
	Logger *slog.Logger
}

// Agent implements agent.Agent with a command-line agent. It is safe for concurrent use.
type Agent struct {
	Spec
	o Options
}

var (
	_ agent.Agent     = (*Agent)(nil)
	_ agent.Installer = (*Agent)(nil)
)

// New makes an Agent from a description, which it validates.
func New(s Spec, o Options) (*Agent, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}

	if o.NPM == "" {
		o.NPM = "npm"
	}

	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}

	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	s.Package = strings.ReplaceAll(s.Package, "{platform}", platform(o.Arch))

	return &Agent{Spec: s, o: o}, nil
}

// platform is npm's name of a platform.
func platform(arch string) string {
	if arch == "amd64" {
		arch = "x64"
	}

	return "linux-" + arch
}

// machine is Linux's name of an architecture.
func machine(arch string) string {
	switch arch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	default:
		return arch
	}
}

// Kind is the agent's entry in the registry. Its command may be a wrapper that starts the process which calls the
// model.
func Kind(s Spec, o Options) (agent.Kind, error) {
	a, err := New(s, o)
	if err != nil {
		return agent.Kind{}, err
	}

	return agent.Kind{Name: s.Name, Agent: a, Descendants: true}, nil
}

// Open implements agent.Agent.
func (a *Agent) Open(ctx context.Context, env agent.Env, job agent.Job) (agent.Run, error) {
	launch, err := agent.OpenProcess(ctx, env.Sandbox, job.Launch, func() (wire.Process, error) {
		return a.process(ctx, env.Sandbox, job)
	})
	if err != nil {
		return nil, err
	}

	return a.run(env.Sandbox, launch), nil
}

// Attach implements agent.Agent.
func (a *Agent) Attach(ctx context.Context, env agent.Env, _ agent.Job) (agent.Run, error) {
	launch, err := agent.AttachProcess(ctx, env.Sandbox)
	if err != nil {
		return nil, err
	}

	return a.run(env.Sandbox, launch), nil
}

func (a *Agent) run(sb agent.Sandbox, l agent.Launch) agent.Run {
	return agent.NewProcessRun(agent.ProcessRunOptions{
		Name: a.Name, Sandbox: sb,
		Check: func(ctx context.Context, st wire.Status) (string, error) {
			if a.Failure == "" && a.Result == "" {
				return "", nil
			}

			out, err := a.output(ctx, sb, st.Name)
			if err != nil {
				return "", err
			}

			return a.failed(string(out))
		},
		Messages: func(ctx context.Context, launch int) ([]json.RawMessage, error) {
			out, err := a.output(ctx, sb, agent.ProcessName(launch))
			return agent.OutputMessages(out), err
		},
	}, l)
}

// maxOutput bounds the part of an agent's record that is read, in bytes. sandboxd keeps the first and the
// last MiB of a stream.
const maxOutput = 2 << 20

// output is the agent's own record of its work so far: the file a.Output, or stdout if that file is missing
// or too large.
func (a *Agent) output(ctx context.Context, sb agent.Sandbox, process string) ([]byte, error) {
	if a.Output != "" {
		out, err := sb.ReadFile(ctx, a.Output, maxOutput)
		if err == nil || fault.Is(err, fault.SandboxLost) || ctx.Err() != nil {
			return out, err
		}
	}

	st, err := sb.Status(ctx, process)
	if err != nil {
		return nil, err
	}

	return sb.Tail(ctx, st, "stdout", maxOutput)
}
