package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// ErrDetached is the cause to cancel a Run with when its user goes away; the rollout goes on.
var ErrDetached = errors.New("detached")

// poll is how often a rollout is looked at: often enough to feel live, seldom enough to cost nothing.
const poll = 300 * time.Millisecond

// Run submits a rollout and follows it to its end. It returns the result, as decoded and as the server wrote it.
func Run(ctx context.Context, c *client.Client, args map[string]any, progress io.Writer) (rollout.Result, []byte, error) {
	started, err := c.Start(ctx, args)
	if err != nil {
		return rollout.Result{}, nil, err
	}
	fmt.Fprintf(progress, "rollout %s\n", started.ID)
	r, raw, err := Attend(ctx, c, started.ID, progress)
	if ctx.Err() != nil {
		fmt.Fprintf(progress, "the rollout goes on. Come back with:  rolloutd show %[1]s   or end it:  rolloutd abort %[1]s\n", started.ID)
	}
	return r, raw, err
}

// Attend follows a rollout that exists and returns its result.
func Attend(ctx context.Context, c *client.Client, id string, progress io.Writer) (rollout.Result, []byte, error) {
	f := &Follower{Server: c, Out: progress, Poll: poll}
	if _, err := f.Follow(ctx, id); err != nil {
		return rollout.Result{}, nil, err
	}
	r, raw, err := c.Result(ctx, id)
	if err == nil && r.Outcome == "" && r.Error != nil {
		err = fault.New(fault.Unavailable, "%s", *r.Error) // a result that only says why there is none yet
	}
	return r, raw, err
}
