package opencode

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The methods of agent.Agent take a real sandbox. Tests of what no real sandbox does on demand (a server that is idle at the
// wrong moment, a stream that breaks) put a fake in its place.

type Box = box

func (a *Agent) InstallIn(ctx context.Context, b Box) (string, error) { return a.install(ctx, b) }

func (a *Agent) StartIn(ctx context.Context, b Box, job agent.Job) (agent.Status, error) {
	return a.start(ctx, b, job)
}

func (a *Agent) WaitIn(ctx context.Context, b Box, job agent.Job, atMost time.Duration) (agent.Status, error) {
	return waitFor(ctx, b, job, atMost)
}

func (a *Agent) TranscriptIn(ctx context.Context, b Box, job agent.Job) (rollout.Transcript, error) {
	return transcript(ctx, b, job)
}

func (a *Agent) StopIn(ctx context.Context, b Box, job agent.Job) error { return a.stop(ctx, b, job) }

// Pin makes sum the one checksum that a takes, for any version and platform: fetching can then be tested with a small file.
func (a *Agent) Pin(sum string) {
	a.find = func(version, platform string) (release, error) {
		return release{version, platform, "opencode-test", sum}, nil
	}
}

// Config and Environment are what Start gives OpenCode; a test that wants more of it changes a copy.
func Config(job agent.Job) string { return config(job) }

func Environment(dir string, job agent.Job) map[string]string { return environment(dir, job) }

func (a *Agent) Located(ctx context.Context, b Box) (string, error) { return a.locate(ctx, b) }
