package agent

import (
	"context"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Warmer is implemented by agents that can be started before they have a job.
//
// A warm agent is launch 1 of its sandbox. The launch begins when Open assigns the job; Attach does not find it before.
type Warmer interface {
	// WarmKey identifies all properties of a job on which the start depends. An agent that was warmed for
	// one job can take any job of the same key. "": the agent cannot be warmed for this job.
	WarmKey(job Job) string
	// Warm installs and starts the agent in a new sandbox, until it can take a job of the key. serve
	// answers the sandbox's model calls with a handler until its context ends.
	Warm(ctx context.Context, env Env, job Job, serve func(context.Context, http.Handler) error) error
	// Ready reports whether the sandbox has a warm agent that waits for a job and responds.
	Ready(ctx context.Context, env Env) (bool, error)
}

// Names of the processes that record the state of a warm launch in sandboxd. They end at once; only their age counts.
const (
	// the agent waits for a job
	warmMark = "warm"

	// the agent has a job
	jobMark = "warm-job"
)

// MarkWarm records that launch 1 waits for a job.
func MarkWarm(ctx context.Context, sb Sandbox) error { return mark(ctx, sb, warmMark) }

// Warm reports whether launch 1 waits for a job.
func Warm(ctx context.Context, sb Sandbox) (bool, error) {
	w, err := warmStateOf(ctx, sb)
	return w.waits(), err
}

// beginJob records that launch 1 has a job, if it was waiting for one.
func beginJob(ctx context.Context, sb Sandbox) error {
	waits, err := Warm(ctx, sb)
	if err != nil || !waits {
		return err
	}

	return mark(ctx, sb, jobMark)
}

func mark(ctx context.Context, sb Sandbox, name string) error {
	_, err := sb.Start(ctx, name, wire.Process{
		Argv: []string{"true"},
		Env:  map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"},
		Dir:  "/",
	})

	return fault.Wrap(fault.KindOf(err), err, "mark the warm agent")
}

// warmState is the state of launch 1 with respect to Warmer; the zero value is a launch that was not warmed.
type warmState struct {
	warm bool

	// when it got its job, by this process's clock; zero: it waits for one
	began time.Time
}

// waits reports whether the launch waits for a job.
func (w warmState) waits() bool { return w.warm && w.began.IsZero() }

func warmStateOf(ctx context.Context, sb Sandbox) (warmState, error) {
	_, err := sb.Status(ctx, warmMark)
	if fault.Is(err, fault.NotFound) {
		return warmState{}, nil
	}

	if err != nil {
		return warmState{}, err
	}

	st, err := sb.Status(ctx, jobMark)
	if fault.Is(err, fault.NotFound) {
		return warmState{warm: true}, nil
	}

	return warmState{warm: true, began: time.Now().Add(-st.Age)}, err
}
