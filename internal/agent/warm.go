package agent

import (
	"context"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Warmer is implemented by agents that can be started before there is a job for them.
//
// A warm agent is launch 1 of its sandbox. Until Open gives it its job, Attach does not find it; its launch begins then.
type Warmer interface {
	// WarmKey names everything of a job that the start depends on: an agent that was warmed for one job can take each job of the
	// same key. "": the job needs an agent that is started for it.
	WarmKey(job Job) string
	// Warm installs the agent in a new sandbox and brings it to where it waits for a job of the key. serve serves the sandbox's model
	// calls with a handler until its context ends.
	Warm(ctx context.Context, env Env, job Job, serve func(context.Context, http.Handler) error) error
	// Ready says whether a warm agent waits for its job in the sandbox and answers.
	Ready(ctx context.Context, env Env) (bool, error)
}

// Names of the processes that record, in sandboxd, how far a warm launch is. They end at once; their age is what counts.
const (
	warmMark = "warm"     // the agent waits for a job
	jobMark  = "warm-job" // it has one
)

// MarkWarm records that launch 1 waits for a job.
func MarkWarm(ctx context.Context, sb Sandbox) error { return mark(ctx, sb, warmMark) }

// Warm says whether launch 1 waits for a job.
func Warm(ctx context.Context, sb Sandbox) (bool, error) {
	w, err := warmthOf(ctx, sb)
	return w.waits(), err
}

// beginJob records that launch 1 has a job now, if it was waiting for one.
func beginJob(ctx context.Context, sb Sandbox) error {
	waits, err := Warm(ctx, sb)
	if err != nil || !waits {
		return err
	}
	return mark(ctx, sb, jobMark)
}

func mark(ctx context.Context, sb Sandbox, name string) error {
	_, err := sb.Start(ctx, name, wire.Process{Argv: []string{"true"}, Env: map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}, Dir: "/"})
	return fault.Wrap(fault.KindOf(err), err, "mark the warm agent")
}

// warmth is what is known of a warm launch 1; the zero value is that of a cold one.
type warmth struct {
	warm  bool
	began time.Time // when it got its job, by this process's clock; zero: it waits for one
}

// waits says that it waits for a job.
func (w warmth) waits() bool { return w.warm && w.began.IsZero() }

func warmthOf(ctx context.Context, sb Sandbox) (warmth, error) {
	_, err := sb.Status(ctx, warmMark)
	if fault.Is(err, fault.NotFound) {
		return warmth{}, nil
	}
	if err != nil {
		return warmth{}, err
	}
	st, err := sb.Status(ctx, jobMark)
	if fault.Is(err, fault.NotFound) {
		return warmth{warm: true}, nil
	}
	return warmth{warm: true, began: time.Now().Add(-st.Age)}, err
}
