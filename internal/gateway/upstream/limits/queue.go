package limits

import (
	"context"
	"slices"
	"time"
)

// pass is the admission of a request.
type pass struct {
	// closed on admission; nil: admitted at once
	ready chan struct{}

	// the request's context; it also ends when the upstream is cleared
	Ctx    context.Context
	cancel context.CancelCauseFunc

	// time of the admission
	began time.Time
}

func newPass(ctx context.Context) *pass {
	p := &pass{}
	p.Ctx, p.cancel = context.WithCancelCause(ctx)

	return p
}

// EndAfter ends the request's context after d with a deadline error, unless stop is called before.
func (p *pass) EndAfter(d time.Duration) (stop func() bool) {
	return time.AfterFunc(d, func() { p.cancel(context.DeadlineExceeded) }).Stop
}

// queue holds the waiting requests. Routes take turns; within a route the order is first in, first out. So
// a rollout with many parallel calls does not delay the others.
type queue struct {
	// by route; never empty
	of map[string][]*pass

	// routes that wait, the next one first
	turns []string
	n     int
}

func (l *queue) empty() bool { return l.n == 0 }

func (l *queue) add(route string, p *pass) {
	if len(l.of[route]) == 0 {
		l.turns = append(l.turns, route)
	}

	l.of[route] = append(l.of[route], p)
	l.n++
}

// next removes the request whose turn it is. The queue must not be empty.
func (l *queue) next() *pass {
	route := l.turns[0]
	p := l.of[route][0]

	l.turns = l.turns[1:]
	if l.of[route] = l.of[route][1:]; len(l.of[route]) > 0 {
		l.turns = append(l.turns, route)
	} else {
		delete(l.of, route)
	}

	l.n--

	return p
}

// remove removes a request; false: it is not in the queue.
func (l *queue) remove(route string, p *pass) bool {
	i := slices.Index(l.of[route], p)
	if i < 0 {
		return false
	}

	if l.of[route] = slices.Delete(l.of[route], i, i+1); len(l.of[route]) == 0 {
		delete(l.of, route)
		l.turns = slices.DeleteFunc(l.turns, func(r string) bool { return r == route })
	}

	l.n--

	return true
}
