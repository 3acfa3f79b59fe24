package process

import (
	"bytes"
	"sync"
)

// maxKeep is how much of each end of a stream is kept at most.
const maxKeep = 1 << 20

// Output keeps the first and the last bytes of a stream. Writing never blocks and never fails, so a process that floods
// its output is neither stuck nor able to use up memory.
type Output struct {
	keep   int // bytes of each end; 0: maxKeep
	mu     sync.Mutex
	head   []byte
	tail   []byte // a ring once it is full: the byte at offset o, o ≥ bound, is at (o-bound) % bound
	size   int64
	frozen bool
	grown  chan struct{} // closed by the next write; nil: no caller waits
}

// NewOutput makes an Output that keeps that many bytes of each end; 0: 1 MiB.
func NewOutput(keep int) *Output { return &Output{keep: keep} }

// bound is how much of each end is kept.
func (o *Output) bound() int {
	if o.keep <= 0 || o.keep > maxKeep {
		return maxKeep
	}
	return o.keep
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, keep := len(p), o.bound()
	if o.frozen {
		return n, nil
	}
	if o.grown != nil && n > 0 {
		close(o.grown)
		o.grown = nil
	}
	if free := keep - len(o.head); free > 0 {
		k := min(free, len(p))
		o.head = append(o.head, p[:k]...)
		o.size += int64(k)
		p = p[k:]
	}
	if skip := len(p) - keep; skip > 0 && len(o.tail) == keep {
		o.size += int64(skip)
		p = p[skip:]
	}
	for len(p) > 0 {
		k := o.writeTail(p)
		o.size += int64(k)
		p = p[k:]
	}
	return n, nil
}

// writeTail stores a first part of p, which goes to offset o.size.
func (o *Output) writeTail(p []byte) int {
	keep := o.bound()
	if free := keep - len(o.tail); free > 0 {
		k := min(free, len(p))
		o.tail = append(o.tail, p[:k]...)
		return k
	}
	return copy(o.tail[(o.size-int64(keep))%int64(keep):], p)
}

// freeze makes the stream final: what a left-over child of the process writes from now on is thrown away.
func (o *Output) freeze() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frozen = true
}

// Grown is closed when more is written.
func (o *Output) Grown() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.grown == nil {
		o.grown = make(chan struct{})
	}
	return o.grown
}

// Length is the number of bytes written so far.
func (o *Output) Length() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size
}

// Read returns at most limit bytes from offset on, and the offset behind them. Where the bytes at offset are no longer kept it
// goes on at the first that are.
func (o *Output) Read(offset int64, limit int) (data []byte, next int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if offset >= int64(len(o.head)) {
		offset = max(offset, o.size-int64(len(o.tail)))
	}
	if offset >= o.size {
		return nil, o.size
	}
	for limit > 0 && offset < o.size {
		piece := o.piece(offset)
		piece = piece[:min(len(piece), limit)]
		data = append(data, piece...)
		offset += int64(len(piece))
		limit -= len(piece)
		if offset == int64(len(o.head)) && o.size-int64(len(o.tail)) > offset {
			break // a gap: the caller sees it by the next read's offsets
		}
	}
	return data, offset
}

// piece is the longest run of kept bytes that lies together from offset on.
func (o *Output) piece(offset int64) []byte {
	if offset < int64(len(o.head)) {
		return o.head[offset:]
	}
	keep := int64(o.bound())
	start := (offset - keep) % keep
	return o.tail[start:min(int64(len(o.tail)), start+o.size-offset)]
}

// Ends returns what is kept: the first bytes, the last bytes, and how many bytes between them were dropped.
func (o *Output) Ends() (head, tail []byte, omitted int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	head = bytes.Clone(o.head)
	for at := o.size - int64(len(o.tail)); at < o.size && len(o.tail) > 0; {
		piece := o.piece(at)
		tail = append(tail, piece...)
		at += int64(len(piece))
	}
	return head, tail, o.size - int64(len(head)+len(tail))
}
