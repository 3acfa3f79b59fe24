// Package tools holds the tools this server offers: one table behind every transport. A tool reads its arguments by the
// schema it publishes and answers with one JSON text.
package tools

import (
	"context"
	"errors"
	"io"

	"github.com/rolloutd/rolloutd/envserver/internal/exports"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Rollouts is what the tools need of the engine that runs rollouts.
type Rollouts interface {
	// Start begins the rollout, or finds the one that has this id already.
	Start(ctx context.Context, spec rollout.Spec) (rollout.State, error)
	// State tells where a rollout stands; fault.NotFound for an unknown id.
	State(ctx context.Context, id string) (rollout.State, error)
	// Wait returns Result.Head once the rollout is done; ctx's error when that ends first. Nothing in it is changed by the tools.
	Wait(ctx context.Context, id string) (rollout.Result, error)
	// Open reads what a rollout left under a name: "result" (JSON of rollout.Result), "trace", "agent", "verifier.stdout",
	// "verifier.stderr"; fault.NotFound when it left none. The caller closes it.
	Open(ctx context.Context, id, name string) (io.ReadCloser, error)
	// Messages returns the agent's transcript as it is now, or the latest stored one; fault.NotFound while there is none.
	Messages(ctx context.Context, id string) (rollout.Transcript, error)
	// Events calls emit with the rollout's events after an id, in order, as they happen. It returns nil after the last one, or the error of
	// emit or of ctx; fault.NotFound for an unknown id.
	Events(ctx context.Context, id string, after int64, emit func([]rollout.Event) error) error
	// Abort asks a rollout to end; false when it had ended already.
	Abort(ctx context.Context, id, reason string) (bool, error)
}

// Session is what a tool tells the session it was called in.
type Session interface {
	// Started records a rollout that is about to be started.
	Started(ctx context.Context, rolloutID string) error
	// Finished records a result that was handed to the session's client.
	Finished(rollout.Result)
	// Watch asks that the rollout be aborted when the session ends, until Unwatch.
	Watch(rolloutID string)
	Unwatch(rolloutID string)
}

// Causes with which a transport cancels a call's context.
var (
	// ErrGone: the client went away. Rollouts that asked for it are aborted.
	ErrGone = errors.New("the client went away")
	// ErrGaveUp: the client sent its next request, and no longer waits for this answer. It is still there: nothing is aborted.
	ErrGaveUp = errors.New("the client sent its next request")
	// ErrStopping: this server is ending. Rollouts go on without it.
	ErrStopping = errors.New("the server is shutting down")
)

// Options are what the tools are made of.
type Options struct {
	Rollouts Rollouts
	Groups   Groups // nil: there is no tool run_group
	// Resolve turns what the client said about its model into an endpoint and its plain API key.
	Resolve func(catalog.Request) (rollout.Model, string, error)
	// Seal makes the form of an API key that may be stored.
	Seal func(string) string
	// Agents are the agents on offer; the first is the default.
	Agents []string
	// Backends and Images are what sandbox.backend and sandbox.image, or template, may name; without a name it is the deployment's own.
	Backends, Images []string
	// MaxSandbox is what a sandbox of each backend may ask for; what is not listed is unbounded.
	MaxSandbox map[string]rollout.Resources
	// MaxNetwork is what a task may ask to reach.
	MaxNetwork NetworkMax
	// Limits are the bounds of a rollout where its caller does not say; what they leave open is derived. agent_timeout_s has
	// its own published default.
	Limits rollout.Limits
	// NewID makes ids for rollouts that come without one.
	// CheckImage refuses an image that no worker of the backend can have; nil: only Images may be named.
	CheckImage func(backend, name string) error
	// CheckToolsets refuses toolsets that no worker has; nil: all are taken.
	CheckToolsets func(enabled, disabled []string) error
	NewID         func() string
	// Exports is the memory for transcripts.
	Exports *exports.Room
}
