package upstream

import "sync"

// BufferPool reuses slices that one call needs, so that they are not allocated and cleared for each call: a
// long prompt needs hundreds of kilobytes. The caller of Give must hold the last reference to the slice. A
// build with the race detector clears returned slices, so that tests find violations.
type BufferPool[T any] struct {
	pool sync.Pool

	// capacity below which a slice is not kept
	Least int

	// capacity above which a slice is not kept
	Most int
}

// Get returns an empty slice, which may have room.
func (r *BufferPool[T]) Get() []T {
	if p, ok := r.pool.Get().(*[]T); ok {
		return (*p)[:0]
	}

	return nil
}

// Put returns a slice to the pool. It drops slices outside of the pool's bounds.
func (r *BufferPool[T]) Put(s []T) {
	if poisons {
		clear(s[:cap(s)])
	}

	if cap(s) < r.Least || cap(s) > r.Most {
		return
	}

	r.pool.Put(&s)
}
