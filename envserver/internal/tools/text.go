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

	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/internal/fault"
)

const (
	// maxResult bounds a result that is returned by a tool, in bytes. REST streams larger ones.
	maxResult = 128 << 20
	// readTime bounds the reading of a result.
	readTime = 5 * time.Minute
)

// Text is the JSON that a call returned. Nothing in it may be changed: all who get one rollout's result at a time share one, as long as
// they hold the Text itself and not only its bytes.
type Text struct {
	// Quoted is the text as it stands between the quotes of a JSON string.
	Quoted []byte
	// JSON is the text itself; nil for a result, which is held in one form only.
	JSON []byte
}

// Write makes the text of an answer.
func Write(v any) (*Text, error) {
	raw, err := pyjson.Encode(v)
	return &Text{JSON: raw, Quoted: pyjson.Quote(raw)}, fault.Wrap(fault.Internal, err, "write the answer")
}

// resultCache knows the results that some client is taking. Hundreds may take one of megabytes at once and slowly, so it is read once and
// held once, for as long as one of them holds it.
type resultCache struct {
	making singleflight.Group // by rollout
	mu     sync.Mutex
	texts  map[string]weak.Pointer[Text] // by rollout
}

// Result is the result of a finished rollout as a text. A rollout has one result, so its id stands for it.
func (t *Table) Result(ctx context.Context, id string) (*Text, error) {
	made, err, _ := t.results.making.Do(id, func() (any, error) {
		if held := t.results.find(id); held != nil {
			return held, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime) // others may wait for it, too
		defer cancel()
		text, err := t.read(ctx, id)
		if err == nil {
			t.results.put(id, text)
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
		return nil, fault.New(fault.Exhausted, "%s", fmt.Sprintf("the result has more than %d MiB: read it from /rollouts/%s/result", maxResult>>20, id))
	}
	return &Text{Quoted: pyjson.Quote(raw)}, nil
}

func (c *resultCache) find(id string) *Text {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.texts[id].Value()
}

func (c *resultCache) put(id string, text *Text) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.texts == nil {
		c.texts = map[string]weak.Pointer[Text]{}
	}
	c.texts[id] = weak.Make(text)
	runtime.AddCleanup(text, c.forget, id)
}

// forget is called when a text was collected. There may be another of that id by then.
func (c *resultCache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.texts[id].Value() == nil {
		delete(c.texts, id)
	}
}
