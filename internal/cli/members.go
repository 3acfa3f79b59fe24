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
	// pollInterval is the time between two requests for the state of a group that is about to change, and
	// before a broken stream is opened again.
	pollInterval = time.Second
	// calmInterval is the same for a group whose running rollouts are all followed.
	calmInterval = 30 * time.Second
	// maxFollowed bounds the streams of events at once.
	maxFollowed = 64
)

// members follows the events of the running rollouts of a group, so that the group's state is requested
// when one of them has ended.
type members struct {
	client *client.Client

	// the context of the streams
	ctx     context.Context
	cancel  context.CancelFunc
	streams sync.WaitGroup

	// has a value after a rollout has ended
	ended chan struct{}

	mu sync.Mutex

	// followed rollouts; true: it has ended
	done map[string]bool
}

// followMembers returns a follower without rollouts. The caller calls stop.
func followMembers(ctx context.Context, c *client.Client) *members {
	ctx, cancel := context.WithCancel(ctx)
	return &members{client: c, ctx: ctx, cancel: cancel, ended: make(chan struct{}, 1), done: map[string]bool{}}
}

// stop ends the streams.
func (f *members) stop() {
	f.cancel()
	f.streams.Wait()
}

// follow starts to follow the running members.
func (f *members) follow(all []rollout.Member) {
	f.mu.Lock()
	defer f.mu.Unlock()

	open := 0

	for _, done := range f.done {
		if !done {
			open++
		}
	}

	for _, m := range all {
		if _, known := f.done[m.RolloutID]; known || m.Outcome != "" || open == maxFollowed {
			continue
		}

		f.done[m.RolloutID] = false
		open++

		f.streams.Go(func() { f.watch(m.RolloutID) })
	}
}

// watch reads the events of one rollout until the last. It opens a broken stream again.
func (f *members) watch(id string) {
	after, done := int64(0), false
	for !done {
		// a server that does not answer may come back
		_ = f.client.Events(f.ctx, id, after, func(e rollout.Event) {
			after, done = max(after, e.ID), done || e.Kind == rollout.EventDone
		})
		if !done && clock.Sleep(f.ctx, pollInterval) != nil {
			return
		}
	}

	f.mu.Lock()
	f.done[id] = true
	f.mu.Unlock()

	select {
	case f.ended <- struct{}{}:
	default:
	}
}

// wait returns when the group may have changed, or with the cause of ctx's end.
func (f *members) wait(ctx context.Context, all []rollout.Member) error {
	pause := calmInterval
	if f.due(all) {
		pause = pollInterval
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

// due reports whether the group changes without an event: a rollout has ended and the group does not have it
// yet, or all have ended, or one is not followed.
func (f *members) due(all []rollout.Member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	open := 0

	for _, m := range all {
		if m.Outcome != "" {
			continue
		}

		open++

		if done, followed := f.done[m.RolloutID]; done || !followed {
			return true
		}
	}

	return open == 0
}
