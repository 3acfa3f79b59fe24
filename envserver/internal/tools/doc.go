// Package tools has the tools of this server, one table for every transport. A tool checks its arguments
// against the schema that it publishes, and answers with one JSON text.
package tools

import (
	"context"
	"errors"
	"io"

	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Rollouts is the tools' interface of the engine that runs rollouts.
type Rollouts interface {
	// Start starts the rollout, or finds the one with its id.
	Start(ctx context.Context, spec rollout.Spec) (rollout.State, error)
	// State returns the state of a rollout; fault.NotFound for an unknown id.
	State(ctx context.Context, id string) (rollout.State, error)
	// Wait returns Result.Head once the rollout is done, or ctx's error. The tools do not modify it.
	Wait(ctx context.Context, id string) (rollout.Result, error)
	// Open reads an artifact of a rollout by name: "result" (JSON of rollout.Result), "trace", "routed_experts", "images",
	// "agent", "verifier.stdout", "verifier.stderr"; fault.NotFound when there is none. The caller closes it.
	Open(ctx context.Context, id, name string) (io.ReadCloser, error)
	// Messages returns the agent's current transcript, or the latest stored one; fault.NotFound while there is none.
	Messages(ctx context.Context, id string) (rollout.Transcript, error)
	// Events calls emit with the rollout's events after an id, in order, as they happen. It returns nil
	// after the last one, or the error of emit or of ctx; fault.NotFound for an unknown id.
	Events(ctx context.Context, id string, after int64, emit func([]rollout.Event) error) error
	// Abort asks a rollout to end; false when it had ended already.
	Abort(ctx context.Context, id, reason string) (bool, error)
}

// Session is the session of a call, as the tools use it.
type Session interface {
	// Started records a rollout before it is started.
	Started(ctx context.Context, rolloutID string) error
	// Finished records a result that is delivered to the session's client.
	Finished(rollout.Result)
	// Watch makes the end of the session abort the rollout, until Unwatch.
	Watch(rolloutID string)
	Unwatch(rolloutID string)
}

// Causes with which a transport cancels a call's context.
var (
	// ErrGone: the client went away. Rollouts with on_disconnect abort are aborted.
	ErrGone = errors.New("the client went away")
	// ErrGaveUp: the client sent its next request and no longer waits for this answer. It is still
	// connected, so nothing is aborted.
	ErrGaveUp = errors.New("the client sent its next request")
	// ErrStopping: this server is shutting down. Rollouts continue.
	ErrStopping = errors.New("the server is shutting down")
)

// Options configures the tools.
type Options struct {
	Rollouts Rollouts

	// nil: no tool run_group
	Groups Groups
	// Resolve turns a client's model arguments into an endpoint and its plain API key.
	Resolve func(catalog.Request) (rollout.Model, string, error)
	// Seal returns the storable form of an API key.
	Seal func(string) string
	// Agents are the available agents; the first is the default.
	Agents []string
	// Backends and Images are the values of sandbox.backend and of sandbox.image, or template. The first
	// backend and the workers' own image are the defaults.
	Backends, Images []string
	// MaxSandbox bounds a sandbox of each backend; a missing backend is unbounded.
	MaxSandbox map[string]rollout.Resources
	// MaxNetwork are the hosts that a task may request.
	MaxNetwork NetworkMax
	// Limits are the default limits of a rollout; missing ones are derived. agent_timeout_s has its own
	// published default.
	Limits rollout.Limits
	// CheckImage refuses an image outside of Images that no worker of the backend can use; nil: only Images
	// are allowed.
	CheckImage func(backend, name string) error
	// CheckToolsets refuses toolsets that no worker has; nil: all are allowed.
	CheckToolsets func(enabled, disabled []string) error
	// NewID returns an id for a rollout without one.
	NewID func() string
	// Exports bounds the memory of transcripts.
	Exports *exportmemory.Room
}
