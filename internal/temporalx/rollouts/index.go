package rollouts

import (
	"context"
	"errors"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/indexstore"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/trajectory/traceindex"
)

// indexBound bounds the making of an index.
const indexBound = 10 * time.Minute

// Index calls read with the index of the newest attempt's trace; fault.NotFound when there is none. read is called
// again if the index that it got turned out to be unusable, and must not use the index afterwards.
func (c *Client) Index(ctx context.Context, id string, read func(*traceindex.Index) error) error {
	var (
		trace string
		size  int64
	)

	err := c.newest(ctx, id, "trace", func(key string) (err error) {
		trace = key
		size, err = c.store.Size(ctx, key)

		return err
	})
	if err != nil {
		return err
	}

	if size < indexstore.Long {
		return c.readTrace(ctx, trace, read)
	}

	err = readIndex(ctx, c.store, trace, read)
	if !errors.Is(err, traceindex.ErrUnusable) && !errors.Is(err, errNoIndex) {
		return err
	}

	_, err = shared(ctx, &c.indexes, trace, indexBound, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, indexstore.MakeIndex(ctx, c.store, trace)
	})
	if err != nil {
		// The store may be full, and this must not keep anyone from reading what is in it.
		return c.readTrace(ctx, trace, read)
	}

	return readIndex(ctx, c.store, trace, read)
}

// errNoIndex: no index is kept.
var errNoIndex = errors.New("no index is kept")

func readIndex(ctx context.Context, st *store.Store, trace string, read func(*traceindex.Index) error) error {
	index, err := indexstore.Open(ctx, st, trace)
	if fault.Is(err, fault.NotFound) {
		return errNoIndex
	}

	if err != nil {
		return err
	}

	return read(index)
}

// readTrace calls read with an index that is not kept.
func (c *Client) readTrace(ctx context.Context, trace string, read func(*traceindex.Index) error) error {
	lines, err := c.store.Reader(ctx, trace)
	if err != nil {
		return err
	}
	defer lines.Close()

	index, err := traceindex.Of(lines)
	if err != nil {
		return err
	}

	return read(index)
}
