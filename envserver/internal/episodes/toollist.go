package episodes

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// refresh is the age at which a list of tools is made again.
	refresh = time.Minute
	// pause is the time between attempts to list tools that cannot be listed.
	pause = 5 * time.Second
)

// toolList caches the tools of a policy, also those of external servers. A request for the list refreshes
// it, one caller at a time. It is safe for concurrent use.
type toolList struct {
	list func(context.Context) ([]Tool, error)
	log  *slog.Logger

	// holds one token: that of the caller that lists
	listing chan struct{}

	mu sync.Mutex

	// nil: never listed
	latest []Tool

	// known as JSON, to detect changes
	encoded []byte

	// the error of the latest attempt
	err  error
	next time.Time
}

func newToolList(list func(context.Context) ([]Tool, error), log *slog.Logger) *toolList {
	return &toolList{list: list, log: log, listing: make(chan struct{}, 1)}
}

// current returns the cached list; nil: none.
func (l *toolList) current() []Tool {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.latest
}

// get returns the list. It lists the tools if the cache is empty or old, and keeps the cached list if that fails.
func (l *toolList) get(ctx context.Context) ([]Tool, error) {
	if known, due, err := l.state(); !due {
		return known, err
	}

	select {
	case l.listing <- struct{}{}:
		defer func() { <-l.listing }()
	case <-ctx.Done():
		return nil, fault.Wrap(fault.Unavailable, context.Cause(ctx), "list the tools of the environment")
	}
	// another caller has listed them
	if known, due, err := l.state(); !due {
		return known, err
	}

	made, err := l.list(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, fault.Wrap(fault.Unavailable, context.Cause(ctx), "list the tools of the environment")
	}

	l.recordOutcome(made, err)
	latest, _, err := l.state()

	return latest, err
}

// state returns the results of get, and whether an attempt to list the tools is due.
func (l *toolList) state() (known []Tool, due bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	due = time.Now().After(l.next)
	if l.latest != nil {
		return l.latest, due, nil
	}

	return nil, due, l.err
}

// recordOutcome records the outcome of an attempt.
func (l *toolList) recordOutcome(made []Tool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if err != nil {
		l.err = fault.Wrap(fault.Unavailable, err, "the tools of the environment cannot be listed now")
		l.next = time.Now().Add(pause)
		l.log.Warn("tools of an environment not listed", "error", err)

		return
	}

	l.next = time.Now().Add(refresh)

	made = append(slices.Clone(made), submit())
	if encoded, err := json.Marshal(made); err != nil || l.latest == nil || !bytes.Equal(encoded, l.encoded) {
		l.latest, l.encoded = made, encoded
	}
}

// submit is the tool that ends an episode.
func submit() Tool {
	return Tool{
		Name:        rollout.SubmitTool,
		Description: "End the episode. The work is graded, and no more tools can be called.",
		InputSchema: &jsonschema.Schema{
			Type: "object",
			Properties: map[string]*jsonschema.Schema{"answer": {
				Type:        "string",
				Description: "your final answer, if the task asks for one",
			}},
		},
	}
}
