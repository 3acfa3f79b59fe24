package buffer

import "sync"

// reused keeps the memory of what is only needed for a while, so that it is not made and cleared anew for each call: of a long prompt
// it is hundreds of kilobytes. Who gives a slice back must be the last to have it; a build with the race detector spoils what is
// given back, so that tests find out who was not.
type Pool[T any] struct {
	pool  sync.Pool
	Least int // capacity below which it is not worth it, and
	Most  int // above which it is not kept
}

// take returns an empty slice, which may have room.
func (r *Pool[T]) Take() []T {
	if p, ok := r.pool.Get().(*[]T); ok {
		return (*p)[:0]
	}
	return nil
}

func (r *Pool[T]) Give(s []T) {
	if poisons {
		clear(s[:cap(s)])
	}
	if cap(s) < r.Least || cap(s) > r.Most {
		return
	}
	r.pool.Put(&s)
}
