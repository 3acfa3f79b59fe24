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
)

// demoTier runs one rollout after begin. The process keeps running after it.
type demoTier struct {
	task  *cli.Task // nil: none
	d     *daemon.Daemon
	out   io.Writer
	ready chan struct{}
}

func newDemoTier(task *cli.Task, d *daemon.Daemon, out io.Writer) *demoTier {
	return &demoTier{task: task, d: d, out: out, ready: make(chan struct{})}
}

// begin starts the demo.
func (t *demoTier) begin() { close(t.ready) }

func (t *demoTier) tier() tier.Tier {
	return tier.Tier{Name: "demo", Start: func(context.Context) (tier.Running, error) {
		ctx, cancel := context.WithCancelCause(context.Background()) // canceled by Stop
		over := make(chan struct{})
		go func() {
			defer close(over)
			select {
			case <-t.ready:
				t.run(ctx)
			case <-ctx.Done():
			}
		}()
		return tier.Running{Stop: func(context.Context) error { cancel(cli.ErrDetached); <-over; return nil }}, nil
	}}
}

func (t *demoTier) run(ctx context.Context) {
	if t.task == nil {
		return
	}
	args := t.task.Arguments()
	args["endpoint"] = "scripted"
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
	}
	fmt.Fprintf(t.out, "\nrun another, for instance\n  %s run examples/fizzbuzz.yaml --endpoint scripted --server %s\n",
		filepath.Join(filepath.Dir(os.Args[0]), "rolloutd"), c.URL)
}
