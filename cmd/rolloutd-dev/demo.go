package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// demoTier runs one rollout after begin. The process keeps running after it.
type demoTier struct {
	// nil: none
	task *taskset.Task

	// instead of the task's; "": the task's
	agent string

	// arguments of `rolloutd run` that the user may try next
	next  string
	d     *daemon.Daemon
	out   io.Writer
	ready chan struct{}
}

func newDemoTier(task *taskset.Task, agent, next string, d *daemon.Daemon, out io.Writer) *demoTier {
	return &demoTier{task: task, agent: agent, next: next, d: d, out: out, ready: make(chan struct{})}
}

// begin starts the demo.
func (t *demoTier) begin() { close(t.ready) }

func (t *demoTier) tier() tier.Tier {
	return tier.Tier{Name: "demo", Start: func(_ context.Context, parts *tier.Parts) error {
		// canceled by Stop
		ctx, cancel := context.WithCancelCause(context.Background())

		ended := make(chan struct{})
		go func() {
			defer close(ended)

			select {
			case <-t.ready:
				t.run(ctx)
			case <-ctx.Done():
			}
		}()

		parts.OnClose(func() error { cancel(cli.ErrDetached); <-ended; return nil })

		return nil
	}}
}

func (t *demoTier) run(ctx context.Context) {
	if t.task == nil {
		return
	}

	args := t.task.Arguments()

	args["endpoint"] = "scripted"
	if t.agent != "" {
		args["agent"] = t.agent
	}

	c := &client.Client{URL: "http://" + t.d.Addresses().Serve, HTTP: &http.Client{}}
	if tokens := t.d.Tokens(); len(tokens) > 0 {
		c.Token = tokens[0]
	}

	r, _, err := cli.Run(ctx, c, args, t.out)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		fmt.Fprintln(t.out, "demo failed:", err)
	default:
		fmt.Fprintln(t.out)
		cli.Table(t.out, r)
		fmt.Fprintln(t.out, sequences(r.ProxyTurns))
	}

	fmt.Fprintf(t.out, "\nrun another, for instance\n  %s run %s --server %s\n",
		filepath.Join(filepath.Dir(os.Args[0]), "rolloutd"), t.next, c.URL)
}

// sequences describes the training sequences of the agent's turns: a new one begins where a prompt does not
// continue the turn before it.
func sequences(turns []rollout.CompactTurn) string {
	count, trained, sampled := 0, 0, 0

	for _, turn := range turns {
		if !turn.Train {
			continue
		}

		if trained == 0 || turn.PrefixBreak != nil {
			count++
		}

		trained++
		sampled += len(turn.CompletionTokenIDs)
	}

	return fmt.Sprintf("trajectory %d sequence(s) of %d turns, %d sampled tokens", count, trained, sampled)
}
