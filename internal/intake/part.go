package intake

import "sync"

// Part is what one request or reply holds. A nil Part holds nothing and can be released. It is safe for concurrent use.
type Part struct {
	share Share

	mu    sync.Mutex
	bytes int64 // that it holds
	taken int64 // of them from the shared memory
}

// Part is a new one, which holds nothing yet.
func (s Share) Part() *Part { return &Part{share: s} }

// Hold makes the part hold so many bytes in all, more or fewer than before. It never waits for memory: the error is ErrBusy, and the part
// then holds what it held.
func (p *Part) Hold(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hold(bytes)
}

// More makes the part hold so many bytes more, as Hold does.
func (p *Part) More(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hold(p.bytes + bytes)
}

func (p *Part) hold(bytes int64) error {
	want := max(bytes*p.share.weight-p.share.m.small, 0)
	switch {
	case want < p.taken:
		p.share.give(p.taken - want)
	case want > p.taken && !p.share.take(want-p.taken, p.taken):
		return ErrBusy
	}
	p.bytes, p.taken = bytes, want
	return nil
}

// Release gives back what the part holds; it may be called more than once.
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
