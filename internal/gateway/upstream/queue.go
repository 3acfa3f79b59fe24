package upstream

import (
	"context"
	"slices"
)

// pass is what a request needs to begin.
type pass struct {
	ready chan struct{}   // closed when it may
	ctx   context.Context // of the request; ends when the upstream is cleared, too
	end   context.CancelCauseFunc
}

func newPass(ctx context.Context) *pass {
	p := &pass{ready: make(chan struct{})}
	p.ctx, p.end = context.WithCancelCause(ctx)
	return p
}

// line is who waits. Routes take turns, and within a route who came first is first: a rollout that asks much at once does not
// keep the others waiting.
type queue struct {
	of    map[string][]*pass // by route; never empty
	turns []string           // routes that wait, the next one first
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

// next takes out whose turn it is; the line is not empty.
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

// remove takes one out; false: he is not in the line.
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
