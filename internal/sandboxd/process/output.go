package process

import (
	"bytes"
	"sync"
)

// maxKeep is the largest size of each kept end of a stream, in bytes.
const maxKeep = 1 << 20

// Output keeps the first and the last bytes of a stream. A write never blocks or fails, so a flood of
// output neither stops its process nor fills memory.
type Output struct {
	// bytes of each end; 0: maxKeep
	maxKept int
	mu      sync.Mutex
	head    []byte

	// a ring once it is full: the byte at offset o, o ≥ bound, is at (o-bound) % bound
	tail   []byte
	size   int64
	frozen bool

	// closed by the next write; nil: no caller waits
	grown chan struct{}
}

// NewOutput returns an Output that keeps that many bytes of each end; 0: 1 MiB.
func NewOutput(keep int) *Output { return &Output{maxKept: keep} }

// bound returns the size of each kept end.
func (o *Output) bound() int {
	if o.maxKept <= 0 || o.maxKept > maxKeep {
		return maxKeep
	}

	return o.maxKept
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

// writeTail stores the first part of p at offset o.size, and returns its length.
func (o *Output) writeTail(p []byte) int {
	keep := o.bound()
	if free := keep - len(o.tail); free > 0 {
		k := min(free, len(p))
		o.tail = append(o.tail, p[:k]...)

		return k
	}

	return copy(o.tail[(o.size-int64(keep))%int64(keep):], p)
}

// freeze makes the stream final: later output of remaining children is dropped.
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

// Read returns at most limit bytes from offset, and the next offset. If the bytes at offset are no longer
// kept, it starts at the first that are.
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
			// a gap, which the next read's offsets show
			break
		}
	}

	return data, offset
}

// piece returns the longest contiguous run of kept bytes from offset.
func (o *Output) piece(offset int64) []byte {
	if offset < int64(len(o.head)) {
		return o.head[offset:]
	}

	keep := int64(o.bound())
	start := (offset - keep) % keep

	return o.tail[start:min(int64(len(o.tail)), start+o.size-offset)]
}

// Ends returns the kept first and last bytes, and the number of bytes dropped between them.
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
