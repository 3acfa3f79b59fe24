package cli

import (
	"context"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// poll is the interval between two requests for the state of a group that is about to change, and before a stream that broke is asked for
	// again.
	poll = time.Second
	// calm is the same for a group whose open rollouts are all followed.
	calm = 30 * time.Second
	// maxFollowed bounds the streams of events at once.
	maxFollowed = 64
)

// members follows the events of the open rollouts of a group, so that the group is asked for when one of them has ended.
type members struct {
	client  *client.Client
	ctx     context.Context // of the streams
	cancel  context.CancelFunc
	streams sync.WaitGroup
	ended   chan struct{} // holds one where a rollout has ended

	mu   sync.Mutex
	over map[string]bool // followed rollouts; true: it has ended
}

// followMembers follows none yet. The caller calls stop.
func followMembers(ctx context.Context, c *client.Client) *members {
	ctx, cancel := context.WithCancel(ctx)
	return &members{client: c, ctx: ctx, cancel: cancel, ended: make(chan struct{}, 1), over: map[string]bool{}}
}

// stop ends the streams.
func (f *members) stop() {
	f.cancel()
	f.streams.Wait()
}

// follow begins to follow those that run.
func (f *members) follow(all []rollout.Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	open := 0
	for _, over := range f.over {
		if !over {
			open++
		}
	}
	for _, m := range all {
		if _, known := f.over[m.RolloutID]; known || m.Outcome != "" || open == maxFollowed {
			continue
		}
		f.over[m.RolloutID] = false
		open++
		f.streams.Go(func() { f.watch(m.RolloutID) })
	}
}

// watch reads the events of one rollout until its last, again where the stream breaks.
func (f *members) watch(id string) {
	after, done := int64(0), false
	for !done {
		_ = f.client.Events(f.ctx, id, after, func(e rollout.Event) { // a server that is away comes back
			after, done = max(after, e.ID), done || e.Kind == rollout.EventDone
		})
		if !done && clock.Sleep(f.ctx, poll) != nil {
			return
		}
	}
	f.mu.Lock()
	f.over[id] = true
	f.mu.Unlock()
	select {
	case f.ended <- struct{}{}:
	default:
	}
}

// wait returns when the group may have changed, or with the cause of ctx's end.
func (f *members) wait(ctx context.Context, all []rollout.Member) error {
	pause := calm
	if f.due(all) {
		pause = poll
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.ended:
	case <-timer.C:
	}
	return nil
}

// due says whether the group changes without an event: a rollout has ended and the group does not have it yet, or all have ended, or one is
// not followed.
func (f *members) due(all []rollout.Member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	open := 0
	for _, m := range all {
		if m.Outcome != "" {
			continue
		}
		open++
		if over, followed := f.over[m.RolloutID]; over || !followed {
			return true
		}
	}
	return open == 0
}
