package episodes

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/episode/live"
	"github.com/rolloutd/rolloutd/internal/listen"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Service is the tool service of a host.
type Service struct {
	Host  string // its id
	Key   seal.Key
	Store *store.Store
	Log   *slog.Logger
}

// Start serves the episodes of the table, and records in the store where.
func (s Service) Start(ctx context.Context, c config.Worker, episodes *live.Table) (tier.Running, error) {
	l, err := listen.TCP("the tool service", c.ToolsListen, "worker.tools_listen (ROLLOUTD_TOOLS_LISTEN)")
	if err != nil {
		return tier.Running{}, err
	}
	url := c.ToolsURL
	if url == "" {
		url = "http://" + l.Addr().String()
	}
	record := store.HostRecord{ID: s.Host, ToolsURL: url, StartedAt: time.Now().UTC()}
	if err := s.Store.PutHost(ctx, record); err != nil {
		return tier.Running{}, errors.Join(err, l.Close())
	}
	return tier.ServeHTTP(l, episodes.Handler(s.Key.Token(episode.TokenPurpose), s.Log)), nil
}
