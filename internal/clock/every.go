package clock

import (
	"context"
	"time"
)

// Every calls do after each pause, until ctx ends or stop is called. stop waits for a running call. Between
// the calls there is no goroutine: a waiting goroutine costs some 8 KiB, and a host has several of these
// for each of its sandboxes.
func Every(ctx context.Context, pause time.Duration, do func(context.Context)) (stop func()) {
	e := &every{ctx: ctx, pause: pause, do: do, turn: make(chan struct{}, 1)}
	e.turn <- struct{}{}

	e.timer = time.AfterFunc(pause, e.call)
	<-e.turn

	return e.stop
}

type every struct {
	// the context of all calls
	ctx   context.Context
	pause time.Duration
	do    func(context.Context)

	// full during a call, and while the fields below change
	turn    chan struct{}
	timer   *time.Timer
	stopped bool
}

func (e *every) call() {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()

	if e.stopped || e.ctx.Err() != nil {
		return
	}

	e.do(e.ctx)
	e.timer.Reset(e.pause)
}

func (e *every) stop() {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()

	e.stopped = true
	e.timer.Stop()
}
