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

// Mode is how OpenCode is run.
type Mode string

const (
	Serve Mode = "serve" // a server that is asked; the default
	Run   Mode = "run"   // one command, its output read
)

// Options configure an Agent.
type Options struct {
	// AgentsDir is the folder on this host that keeps agents; the local sandbox driver mounts it into its sandboxes.
	AgentsDir string
	Version   string // "" is DefaultVersion; others must be in the table of releases
	Platform  string // of the sandboxes, as GOOS/GOARCH; "" is this host's
	Mode      Mode   // "" is Serve
	NPM       string // the npm command; "" is npm from PATH
	Logger    *slog.Logger
}

// Agent implements agent.Agent with OpenCode. It is safe for concurrent use.
type Agent struct {
	opts Options
	mode mode
	find func(version, platform string) (release, error)
	log  *slog.Logger
}

var _ agent.Agent = (*Agent)(nil)

// mode is one way to run OpenCode.
type mode interface {
	// argv is the command, given the binary's path; stdin what it reads.
	argv(binary string) []string
	stdin(job agent.Job) []byte
	// begin brings a running process to work on the job.
	begin(ctx context.Context, b box, job agent.Job) (agent.Status, error)
	wait(ctx context.Context, b box, job agent.Job, atMost time.Duration) (agent.Status, error)
	transcript(ctx context.Context, b box, job agent.Job) (rollout.Transcript, error)
	// interrupt ends the work in hand, keeping what the agent knows of it; the process is killed afterwards.
	interrupt(ctx context.Context, b box, job agent.Job) error
}

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
	a := &Agent{opts: o, mode: serveMode{}, find: findRelease, log: o.Logger}
	if o.Mode == Run {
		a.mode = runMode{}
	}
	return a
}

// Start implements agent.Agent.
func (a *Agent) Start(ctx context.Context, sb *sandbox.Sandbox, job agent.Job) (agent.Status, error) {
	return a.start(ctx, sb, job)
}

// Wait implements agent.Agent.
func (a *Agent) Wait(ctx context.Context, sb *sandbox.Sandbox, job agent.Job, atMost time.Duration) (agent.Status, error) {
	return a.mode.wait(ctx, sb, job, atMost)
}

// Transcript implements agent.Agent. Of a process that is gone it returns what Stop kept; fault.NotFound when nothing was.
func (a *Agent) Transcript(ctx context.Context, sb *sandbox.Sandbox, job agent.Job) (rollout.Transcript, error) {
	return a.mode.transcript(ctx, sb, job)
}

// Stop implements agent.Agent.
func (a *Agent) Stop(ctx context.Context, sb *sandbox.Sandbox, job agent.Job) error {
	return a.stop(ctx, sb, job)
}
