package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/delivery/files"
	"github.com/rolloutd/rolloutd/internal/delivery/trainer"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// sinkOptions are the dependencies of sinks.
type sinkOptions struct {
	// keeps their notes
	Store *store.Store
	Log   *slog.Logger
}

// openSinks creates all sinks of a configuration, without connecting to any.
func openSinks(all map[string]config.Sink, o sinkOptions) (map[string]delivery.Named, error) {
	out := map[string]delivery.Named{}

	for name, c := range all {
		if c.Missing != nil {
			return nil, c.Missing
		}

		s, err := openSink(name, c, o)
		if err != nil {
			return nil, fmt.Errorf("sinks.%s: %w", name, err)
		}

		out[name] = delivery.Named{
			Sink:    s,
			Partial: c.Partial,
			One:     c.OneSequence(),
			Choice: sequence.Choice{
				Subagents: sequence.Subagents(c.Subagents),
				Summaries: sequence.Summaries(c.Summaries),
			},
		}
	}

	return out, nil
}

func openSink(name string, c config.Sink, o sinkOptions) (delivery.Sink, error) {
	api := trainer.Options{URL: c.URL, Token: c.Token, OffPolicy: c.MaxBatchesOffPolicy, GroupSize: c.GroupSize}
	switch c.Kind {
	case config.SinkFiles:
		return files.New(files.Options{
			Folder: c.Path,
			Format: cmp.Or(files.Format(c.Format), files.JSONLines),
			Groups: c.ShardGroups,
			Age:    c.ShardAge,
		}), nil
	case config.SinkTrainerAPI:
		return trainer.NewAPI(api), nil
	case config.SinkPull:
		return trainer.NewPull(api, cmp.Or(c.Queue, name), c.MaxWaiting), nil
	case config.SinkAtropos:
		env := trainer.Env{
			Name:      cmp.Or(c.Name, name),
			MaxTokens: c.MaxTokenLength,
			Weight:    c.Weight,
			Minimum:   c.MinBatchAllocation,
		}

		return trainer.NewAtropos(api, env, notes{o.Store, name}, o.Log.With("sink", name)), nil
	default:
		return nil, fmt.Errorf("kind: unknown %q", c.Kind)
	}
}

// notes stores the notes of a sink in the store.
type notes struct {
	store *store.Store
	sink  string
}

func (n notes) key(name string) string { return store.NoteKey(n.sink, name) }

// Load reads a note.
func (n notes) Load(ctx context.Context, name string, v any) error {
	return n.store.JSON(ctx, n.key(name), v)
}

// Save replaces a note.
func (n notes) Save(ctx context.Context, name string, v any) error {
	return n.store.PutJSON(ctx, n.key(name), v)
}
