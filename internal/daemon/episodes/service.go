package episodes

import (
	"log/slog"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/episode/live"
	"github.com/rolloutd/rolloutd/internal/listen"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// Service is the tool service of a host.
type Service struct {
	Key seal.Key
	Log *slog.Logger
}

// Start serves the episodes of the table, and returns the URL by which servers reach it.
func (s Service) Start(c config.Worker, episodes *live.Table) (running tier.Running, url string, err error) {
	l, err := listen.TCP("the tool service", c.ToolsListen, "worker.tools_listen (ROLLOUTD_TOOLS_LISTEN)")
	if err != nil {
		return tier.Running{}, "", err
	}
	if url = c.ToolsURL; url == "" {
		url = "http://" + l.Addr().String()
	}
	return tier.ServeHTTP(l, episodes.Handler(s.Key.Token(episode.TokenPurpose), s.Log)), url, nil
}
