package gateway

import "sync"

// reused keeps the memory of what is only needed for a while, so that it is not made and cleared anew for each call: of a long prompt
// it is hundreds of kilobytes. Who gives a slice back must be the last to have it; a build with the race detector spoils what is
// given back, so that tests find out who was not.
type reused[T any] struct {
	pool  sync.Pool
	least int // capacity below which it is not worth it, and
	most  int // above which it is not kept
}

// take returns an empty slice, which may have room.
func (r *reused[T]) take() []T {
	if p, ok := r.pool.Get().(*[]T); ok {
		return (*p)[:0]
	}
	return nil
}

func (r *reused[T]) give(s []T) {
	if spoils {
		clear(s[:cap(s)])
	}
	if cap(s) < r.least || cap(s) > r.most {
		return
	}
	r.pool.Put(&s)
}
