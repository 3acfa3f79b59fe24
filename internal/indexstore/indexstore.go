// Package indexstore keeps the indexes of traces in the store, each beside its trace. The index of a short trace is
// made anew for each reader, since it costs no more than to read it. An index that is missing, of another version, of
// another trace or damaged is made again.
package indexstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/trajectory/traceindex"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// Long is the size of a trace in bytes from which on its index is kept. A trace of this size is read in some 50 ms.
const Long = 4 << 20

// Key returns the key of the index of a trace.
func Key(trace string) string { return path.Join(path.Dir(trace), store.TraceIndex) }

// Open opens the kept index of the trace with a key. The index is read until ctx ends. A missing one is a
// fault.NotFound, and one that must be made again traceindex.ErrUnusable.
func Open(ctx context.Context, st *store.Store, trace string) (*traceindex.Index, error) {
	size, err := st.Size(ctx, Key(trace))
	if err != nil {
		return nil, err
	}

	of, err := about(ctx, st, trace)
	if err != nil {
		return nil, err
	}

	return traceindex.Open(st.Ranges(ctx, Key(trace)), size, of)
}

// about says which trace an index must be of.
func about(ctx context.Context, st *store.Store, trace string) (traceindex.Trace, error) {
	size, err := st.Size(ctx, trace)
	if err != nil {
		return traceindex.Trace{}, err
	}

	tail, err := st.Tail(ctx, trace, traceindex.TailBytes)
	sum := sha256.Sum256(tail)

	return traceindex.Trace{Size: size, Tail: "sha256:" + hex.EncodeToString(sum[:])}, err
}

// MakeIndex makes and keeps the index of a trace.
func MakeIndex(ctx context.Context, st *store.Store, trace string) error {
	of, err := about(ctx, st, trace)
	if err != nil {
		return err
	}

	lines, err := st.Reader(ctx, trace)
	if err != nil {
		return err
	}
	defer lines.Close()

	b := newBuilder(ctx, st, trace, of)

	return b.Finish(turns.Each(lines, turns.Unbounded, b.Add))
}

// Builder makes and keeps the index of a trace whose turns its caller reads.
type Builder struct {
	of    traceindex.Trace
	index *traceindex.Builder
	blob  *io.PipeWriter

	// receives the error of the blob once it is stored
	stored chan error
}

// NewBuilder begins the index of a trace; nil: the trace is shorter than Long and needs none. Finish must be called.
func NewBuilder(ctx context.Context, st *store.Store, trace string) (*Builder, error) {
	of, err := about(ctx, st, trace)
	if err != nil || of.Size < Long {
		return nil, err
	}

	return newBuilder(ctx, st, trace, of), nil
}

func newBuilder(ctx context.Context, st *store.Store, trace string, of traceindex.Trace) *Builder {
	r, w := io.Pipe()
	b := &Builder{of: of, index: traceindex.NewBuilder(w), blob: w, stored: make(chan error, 1)}

	go func() {
		_, err := st.Put(ctx, Key(trace), r)
		// a writer does not wait for a store that takes no more
		r.CloseWithError(err)

		b.stored <- err
	}()

	return b
}

// Add adds the next turn.
func (b *Builder) Add(t *rollout.Turn) error { return b.index.Add(t) }

// Finish keeps the index, or, after an error of the trace or of Add, does not and returns the error.
func (b *Builder) Finish(err error) error {
	if err == nil {
		err = b.index.Finish(b.of)
	}

	b.blob.CloseWithError(err)

	return cmp.Or(err, <-b.stored)
}
