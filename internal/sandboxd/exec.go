package sandboxd

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rolloutd/rolloutd/internal/sandboxd/idempotent"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// execs runs the commands of a sandbox.
type execs struct {
	processes *process.Table
	calls     *idempotent.Table[wire.ExecResult]
	started   atomic.Int64
}

// newExecs returns execs that start its commands in p.
func newExecs(p *process.Table) *execs {
	return &execs{
		processes: p,
		calls:     idempotent.New(func(r wire.ExecResult) int { return r.Stdout.Len() + r.Stderr.Len() }),
	}
}

// Run runs the command once under the id, and returns its result, or Running after wait; see idempotent.Table.
func (x *execs) Run(ctx context.Context, id string, e wire.Exec, wait time.Duration) (wire.ExecResult, error) {
	r, running, err := x.calls.Run(ctx, id, e, wait, func(ctx context.Context) (wire.ExecResult, error) {
		return x.run(ctx, e)
	})
	r.Name, r.Running = id, running

	return r, err
}

// Delete kills the command if it still runs, and removes the call. An unknown id is not an error.
func (x *execs) Delete(ctx context.Context, id string) error { return x.calls.Delete(ctx, id) }

// run runs a command until it ends or is ended by its timeout, its deletion or the end of the sandbox.
func (x *execs) run(ctx context.Context, e wire.Exec) (wire.ExecResult, error) {
	name := fmt.Sprintf("exec-%d", x.started.Add(1))

	p, err := x.processes.StartCall(name, e.Process, nil)
	if err != nil {
		return wire.ExecResult{}, err
	}
	// a process that survives SIGKILL is waited for
	stop := context.AfterFunc(ctx, func() { _ = x.processes.Kill(p) })
	defer stop()

	<-p.Done()
	x.processes.Delete(name)

	return wire.ExecResult{
		Status: p.Status(),
		Stdout: output(p.Stream("stdout")),
		Stderr: output(p.Stream("stderr")),
	}, nil
}

func output(o *process.Output) wire.Output {
	head, tail, omitted := o.Ends()
	return wire.Output{Head: head, Tail: tail, Omitted: omitted}
}
