package tool

import (
	"context"
	"sync"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// BindLater is Bind for a client that already knows its tools. It asks the servers at the first call of a
// tool that is not the registry's own, so that a failing server affects no other calls.
func (s *Selection) BindLater(ctx context.Context, env Env) Set {
	return &later{selection: s, builtin: s.builtinTools(ctx, env)}
}

// later implements Set. It is safe for concurrent use.
type later struct {
	selection *Selection
	builtin   *bound

	mu sync.Mutex

	// the set with the tools of all servers; nil: some have not answered yet
	all *bound
}

// Definitions implements Set: the tools known so far.
func (l *later) Definitions() []Definition {
	if all := l.current(); all != nil {
		return all.Definitions()
	}

	return l.builtin.Definitions()
}

// Call implements Set.
func (l *later) Call(ctx context.Context, c Call) (Result, error) {
	b, err := l.having(ctx, c.Name)
	if err != nil {
		return Result{}, err
	}

	return b.Call(ctx, c)
}

// having returns the tools for a call of that name. A server that does not answer is an error unless
// another one has the tool.
func (l *later) having(ctx context.Context, name string) (*bound, error) {
	if all := l.current(); all != nil {
		return all, nil
	}

	if l.builtin.find(name) != nil {
		return l.builtin, nil
	}

	b, err := l.selection.askServers(ctx, l.builtin)
	switch {
	case err == nil:
		l.mu.Lock()
		defer l.mu.Unlock()

		l.all = b
	case b.find(name) == nil:
		kind := fault.KindOf(err)
		if kind == fault.Unavailable && ctx.Err() == nil {
			kind = fault.ToolServerFailed
		}

		return nil, fault.Wrap(kind, err, "look for the tool %.100q", name)
	}

	return b, nil
}

func (l *later) current() *bound {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.all
}
