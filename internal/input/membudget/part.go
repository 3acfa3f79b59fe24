package membudget

import "sync"

// Part is the memory of one request or reply. A nil Part is empty and can be released. It is safe for concurrent use.
type Part struct {
	share Share

	mu sync.Mutex

	// bytes that it holds
	bytes int64

	// bytes of them that are from the shared memory
	taken int64
}

// Part is a new one, which holds nothing yet.
func (s Share) Part() *Part { return &Part{share: s} }

// Resize sets the size of the part, in bytes. It does not wait for memory: after ErrBusy the part is unchanged.
func (p *Part) Resize(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.resize(bytes)
}

// More makes the part hold so many bytes more, as Hold does.
func (p *Part) More(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.resize(p.bytes + bytes)
}

func (p *Part) resize(bytes int64) error {
	want := max(bytes*p.share.weight-p.share.m.small, 0)
	switch {
	case want < p.taken:
		p.share.give(p.taken - want)
	case want > p.taken && !p.share.reserve(want-p.taken, p.taken):
		return ErrBusy
	}

	p.bytes, p.taken = bytes, want

	return nil
}

// Release releases the part's memory; it may be called more than once.
func (p *Part) Release() {
	if p == nil {
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	if p.taken > 0 {
		p.share.give(p.taken)
	}

	p.bytes, p.taken = 0, 0
}
