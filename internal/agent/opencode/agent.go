package opencode

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Options configure an Agent.
type Options struct {
	// the OpenCode of this host
	Binary *binary.Cache
	Logger *slog.Logger
}

// pauseAfter is how long OpenCode waits for its model before sandboxd pauses the process. A waiting
// OpenCode uses 0.8 % of a core for timers.
const pauseAfter = 5 * time.Second

// Agent implements agent.Agent with OpenCode. It is safe for concurrent use.
type Agent struct {
	binary *binary.Cache
	log    *slog.Logger
}

var (
	_ agent.Agent     = (*Agent)(nil)
	_ agent.Installer = (*Agent)(nil)
)

// New makes an Agent.
func New(o Options) *Agent {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	return &Agent{binary: o.Binary, log: o.Logger}
}

// Kind is OpenCode's entry in the registry.
func Kind(o Options) agent.Kind {
	return agent.Kind{
		Name:       rollout.AgentOpencode,
		Agent:      New(o),
		OutputBlob: store.OpencodeOutput,
		LogPath:    rollout.AgentLog,
		Log:        AgentLog,
		Sessions:   true,
	}
}

// Open implements agent.Agent.
func (a *Agent) Open(ctx context.Context, env agent.Env, job agent.Job) (agent.Run, error) {
	if err := endStale(ctx, env.Sandbox); err != nil {
		return nil, err
	}

	fresh := false

	launch, err := agent.OpenProcess(ctx, env.Sandbox, job.Launch, func() (wire.Process, error) {
		fresh = true
		return a.Process(ctx, env, job, serveArgs()...)
	})
	if fault.Is(err, fault.Invalid) {
		err = fmt.Errorf("start opencode (it needs an image with glibc 2.17 or later, not musl): %w", err)
	}

	if err != nil {
		return nil, err
	}

	r := a.newRun(env, job, launch)
	r.fresh = fresh

	return r, nil
}

// Attach implements agent.Agent.
func (a *Agent) Attach(ctx context.Context, env agent.Env, job agent.Job) (agent.Run, error) {
	launch, err := agent.AttachProcess(ctx, env.Sandbox)
	if err != nil {
		return nil, err
	}

	r := a.newRun(env, job, launch)
	r.resumed = true

	return r, nil
}

// Process describes the installed OpenCode with arguments args, in the environment of the job.
func (a *Agent) Process(ctx context.Context, env agent.Env, job agent.Job, args ...string) (wire.Process, error) {
	dir, err := a.locate(ctx, env.Sandbox)
	if err != nil {
		return wire.Process{}, err
	}

	if dir == "" {
		return wire.Process{}, fault.New(fault.NotFound, "opencode %s is not in the sandbox: Install comes before Open",
			a.binary.Version())
	}

	return wire.Process{
		Argv:             append([]string{dir + "/" + binary.File}, args...),
		Env:              environment(dir, job),
		Dir:              rollout.Workdir,
		PauseAfterMillis: pauseAfter.Milliseconds(),
	}, nil
}
