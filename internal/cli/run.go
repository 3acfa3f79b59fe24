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

// ErrDetached is the cancellation cause of a Run whose user stops watching. The rollout continues.
var ErrDetached = errors.New("detached")

// pause is the time between two requests to a server that does not answer.
const pause = time.Second

// Run submits a rollout and follows it to its end. It returns the decoded result and the server's JSON.
func Run(
	ctx context.Context,
	c *client.Client,
	args map[string]any,
	progress io.Writer,
) (rollout.Result, []byte, error) {
	started, err := c.Start(ctx, args)
	if err != nil {
		return rollout.Result{}, nil, err
	}

	return Started(ctx, c, started.ID, progress)
}

// Started follows a rollout that was just started, as Run does.
func Started(ctx context.Context, c *client.Client, id string, progress io.Writer) (rollout.Result, []byte, error) {
	fmt.Fprintf(progress, "rollout %s\n", id)

	r, raw, err := Follow(ctx, c, id, progress)
	if ctx.Err() != nil {
		fmt.Fprintf(progress,
			"the rollout continues; show it:  rolloutd show %[1]s   abort it:  rolloutd abort %[1]s\n",
			id)
	}

	return r, raw, err
}

// Follow follows an existing rollout to its end and returns its result, as Run does.
func Follow(ctx context.Context, c *client.Client, id string, progress io.Writer) (rollout.Result, []byte, error) {
	f := &Follower{Server: c, Out: progress, Pause: pause}
	if err := f.Follow(ctx, id); err != nil {
		return rollout.Result{}, nil, err
	}

	r, raw, err := c.Result(ctx, id)
	if err == nil && r.Outcome == "" && r.Error != nil {
		// the server had no result in time; Error is the reason
		err = fault.New(fault.Unavailable, "%s", *r.Error)
	}

	return r, raw, err
}
