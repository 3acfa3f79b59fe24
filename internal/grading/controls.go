package grading

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// maxControls bounds the verifiers whose runs without work are kept.
const maxControls = 1000

// Controls keeps how verifiers ended without any work, so that this is found out once per task and image and not per
// submission. It is for concurrent use; the zero value is ready.
type Controls struct {
	mu     sync.Mutex
	byTask map[[sha256.Size]byte]*keptControl

	// oldest first
	tasks [][sha256.Size]byte
}

// keptControl is the run of one verifier.
type keptControl struct {
	// one token: its holder may read and write result
	turn chan struct{}

	// nil: not run yet
	result *control
}

// controlOf runs the verifier without the agent's work, or returns how it ended when it ran before. Concurrent callers
// wait for the first. What is not the task's alone is not kept: a run that an error or a limit of time or of the host
// ended, and one with packages that the setup of this attempt left.
func (g *Grader) controlOf(ctx context.Context, job Job) (control, error) {
	packages, err := g.Store.Exists(ctx, store.AttemptKey(job.RolloutID, job.Attempt, store.Packages))
	if err != nil {
		return control{}, err
	}

	if g.Controls == nil || packages {
		return g.runAlone(ctx, job)
	}

	kept, err := g.Controls.of(job)
	if err != nil {
		return control{}, err
	}

	select {
	case kept.turn <- struct{}{}:
		defer func() { <-kept.turn }()
	case <-ctx.Done():
		return control{}, ctx.Err()
	}

	if kept.result != nil {
		return *kept.result, nil
	}

	c, err := g.runAlone(ctx, job)
	if err == nil && c.repeatable {
		kept.result = &c
	}

	return c, err
}

// of returns the place for the run of a job's verifier. It drops the oldest if there are too many.
func (c *Controls) of(job Job) (*keptControl, error) {
	content, err := json.Marshal(struct {
		Sandbox  rollout.Sandbox
		Verifier rollout.Verifier
		Timeout  time.Duration
	}{job.Sandbox, job.Verifier, job.Timeout})
	if err != nil {
		return nil, err
	}

	key := sha256.Sum256(content)

	c.mu.Lock()
	defer c.mu.Unlock()

	if kept, ok := c.byTask[key]; ok {
		return kept, nil
	}

	if c.byTask == nil {
		c.byTask = map[[sha256.Size]byte]*keptControl{}
	}

	if len(c.tasks) == maxControls {
		delete(c.byTask, c.tasks[0])
		c.tasks = c.tasks[1:]
	}

	kept := &keptControl{turn: make(chan struct{}, 1)}
	c.byTask[key] = kept
	c.tasks = append(c.tasks, key)

	return kept, nil
}
