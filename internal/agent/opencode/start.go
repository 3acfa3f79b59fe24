package opencode

import (
	"context"
	"fmt"
	"strings"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

func (a *Agent) start(ctx context.Context, b box, job agent.Job) (agent.Status, error) {
	_, err := b.Status(ctx, agent.ProcessName(job.Launch))
	if fault.Is(err, fault.NotFound) {
		err = a.launch(ctx, b, job)
	}
	if err != nil {
		return agent.Status{}, err
	}
	return begin(ctx, b, job)
}

func (a *Agent) launch(ctx context.Context, b box, job agent.Job) error {
	p, err := a.process(ctx, b, job, serveArgs())
	if err != nil {
		return err
	}
	_, err = b.Start(ctx, agent.ProcessName(job.Launch), p)
	if fault.Is(err, fault.Invalid) {
		return fmt.Errorf("start opencode (it needs an image with glibc 2.17 or later, not musl): %w", err)
	}
	return err
}

// Process is the installed OpenCode with arguments args, in the environment that it has when it works on the job.
func (a *Agent) Process(ctx context.Context, sb *sandbox.Sandbox, job agent.Job, args ...string) (wire.Process, error) {
	return a.process(ctx, sb, job, args)
}

func (a *Agent) process(ctx context.Context, b box, job agent.Job, args []string) (wire.Process, error) {
	dir, err := a.locate(ctx, b)
	if err != nil {
		return wire.Process{}, err
	}
	if dir == "" {
		return wire.Process{}, fault.New(fault.NotFound, "opencode %s is not in the sandbox: Install comes before Start", a.opts.Version)
	}
	return wire.Process{Argv: append([]string{dir + "/" + binaryFile}, args...), Env: environment(dir, job), Dir: rollout.Workdir}, nil
}

// died is the status of a launch whose process has ended and should not have.
func died(ctx context.Context, b box, st wire.Status) (agent.Status, error) {
	said, err := b.Tail(ctx, st.Name, "stderr", 2000)
	if err != nil {
		return agent.Status{}, err
	}
	how := fmt.Sprintf("opencode exited with code %d", st.ExitCode)
	if st.Signal != "" {
		how = fmt.Sprintf("opencode was killed by signal %s", st.Signal)
	}
	if text := strings.TrimSpace(string(said)); text != "" {
		how += "; its last words: " + text
	}
	code := st.ExitCode
	if code == 0 {
		code = 1 // 0 would say that there is an answer
	}
	return agent.Status{Done: true, ExitCode: code, Error: how}, nil
}
