// Package sinks makes the configured sinks.
package sinks

import (
	"cmp"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/delivery/files"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Open makes all sinks of a configuration. It reaches none of them.
func Open(all map[string]config.Sink) (map[string]delivery.Named, error) {
	out := map[string]delivery.Named{}
	for name, c := range all {
		s, err := open(c)
		if err != nil {
			return nil, fmt.Errorf("sinks.%s: %w", name, err)
		}
		out[name] = delivery.Named{Sink: s, Partial: c.Partial, One: c.One(), Subagents: sequence.Subagents(c.Subagents)}
	}
	return out, nil
}

func open(c config.Sink) (delivery.Sink, error) {
	switch c.Kind {
	case config.SinkFiles:
		return files.New(files.Options{
			Folder: c.Path, Format: cmp.Or(files.Format(c.Format), files.JSONLines), Groups: c.ShardGroups, Age: c.ShardAge,
		}), nil
	default:
		return nil, fmt.Errorf("kind: unknown %q", c.Kind)
	}
}
