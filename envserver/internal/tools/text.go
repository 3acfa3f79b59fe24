package tools

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"
	"weak"

	"golang.org/x/sync/singleflight"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/internal/fault"
)

const (
	// maxResult bounds the result of a tool, in bytes. REST streams larger ones.
	maxResult = 128 << 20
	// readTime bounds the reading of a result.
	readTime = 5 * time.Minute
)

// Text is the JSON that a call returned. It must not be modified: all callers that get the result of one
// rollout at the same time share a Text, as long as they reference the Text itself and not only its bytes.
type Text struct {
	// Quoted is the text escaped for a JSON string, without the quotes.
	Quoted []byte
	// JSON is the text itself; nil for a rollout's result, to save memory.
	JSON []byte
}

// Write encodes an answer.
func Write(v any) (*Text, error) {
	raw, err := jsonvalue.Encode(v)
	return &Text{JSON: raw, Quoted: jsonvalue.Quote(raw)}, fault.Wrap(fault.Internal, err, "write the answer")
}

// resultCache has the results that are being sent. Hundreds of clients may read a result of megabytes at
// once and slowly, so it is loaded and held once, as long as one of them references it.
type resultCache struct {
	// by rollout
	making singleflight.Group
	mu     sync.Mutex

	// by rollout
	texts map[string]weak.Pointer[Text]
}

// Result returns the result of a finished rollout as a text. Results never change, so the cache has them by rollout id.
func (t *Table) Result(ctx context.Context, id string) (*Text, error) {
	made, err, _ := t.results.making.Do(id, func() (any, error) {
		if held := t.results.find(id); held != nil {
			return held, nil
		}
		// other callers may wait for it
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
		defer cancel()

		text, err := t.read(ctx, id)
		if err == nil {
			t.results.storeText(id, text)
		}

		return text, err
	})
	text, _ := made.(*Text)

	return text, err
}

func (t *Table) read(ctx context.Context, id string) (*Text, error) {
	r, err := t.o.Rollouts.Open(ctx, id, "result")
	if err != nil {
		return nil, err
	}
	defer r.Close()

	raw, err := io.ReadAll(io.LimitReader(r, maxResult+1))
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Unavailable, err, "read the result of %q", id)
	case len(raw) > maxResult:
		return nil, fault.New(fault.Exhausted, "%s",
			fmt.Sprintf("the result has more than %d MiB: read it from /rollouts/%s/result", maxResult>>20, id))
	}

	return &Text{Quoted: jsonvalue.Quote(raw)}, nil
}

func (c *resultCache) find(id string) *Text {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.texts[id].Value()
}

func (c *resultCache) storeText(id string, text *Text) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.texts == nil {
		c.texts = map[string]weak.Pointer[Text]{}
	}

	c.texts[id] = weak.Make(text)
	runtime.AddCleanup(text, c.forget, id)
}

// forget is called after a text was garbage collected. The cache may have another text of the same id by then.
func (c *resultCache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.texts[id].Value() == nil {
		delete(c.texts, id)
	}
}
