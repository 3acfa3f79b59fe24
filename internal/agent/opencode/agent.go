package opencode

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// Options configure an Agent.
type Options struct {
	// AgentsDir is the folder on this host that keeps agents; the local sandbox driver mounts it into its sandboxes.
	AgentsDir string
	Version   string // "" is DefaultVersion; others must be in the table of releases
	Platform  string // of the sandboxes, as GOOS/GOARCH; "" is this host's
	NPM       string // the npm command; "" is npm from PATH
	Logger    *slog.Logger
}

// Agent implements agent.Agent with OpenCode. It is safe for concurrent use.
type Agent struct {
	opts Options
	find func(version, platform string) (release, error)
	log  *slog.Logger
}

var _ agent.Agent = (*Agent)(nil)

// New makes an Agent.
func New(o Options) *Agent {
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	if o.Platform == "" {
		o.Platform = runtime.GOOS + "/" + runtime.GOARCH
	}
	if o.NPM == "" {
		o.NPM = "npm"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{opts: o, find: findRelease, log: o.Logger}
}

// Start implements agent.Agent.
func (a *Agent) Start(ctx context.Context, sb *sandbox.Sandbox, job agent.Job) (agent.Status, error) {
	return a.start(ctx, sb, job)
}

// Wait implements agent.Agent.
func (a *Agent) Wait(ctx context.Context, sb *sandbox.Sandbox, job agent.Job, atMost time.Duration) (agent.Status, error) {
	return waitFor(ctx, sb, job, atMost)
}

// Transcript implements agent.Agent. Of a process that is gone it returns what Stop kept; fault.NotFound when nothing was.
func (a *Agent) Transcript(ctx context.Context, sb *sandbox.Sandbox, job agent.Job) (rollout.Transcript, error) {
	return transcript(ctx, sb, job)
}

// Stop implements agent.Agent.
func (a *Agent) Stop(ctx context.Context, sb *sandbox.Sandbox, job agent.Job) error {
	return a.stop(ctx, sb, job)
}
