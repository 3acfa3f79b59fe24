package daemon

import (
	"cmp"
	"log/slog"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// episodeService is the tool service of a host.
type episodeService struct {
	Key seal.Key
	Log *slog.Logger
}

// toolServicePath is where the service is, below the address of the host's API.
const toolServicePath = "/episodes/"

// With serves the episodes of the table below path, and the host's API elsewhere.
func (s episodeService) With(hostAPI http.Handler, episodes *toolservice.Table) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", hostAPI)
	mux.Handle(toolServicePath, s.handler(episodes))

	return mux
}

func (s episodeService) handler(episodes *toolservice.Table) http.Handler {
	return episodes.Handler(s.Key.Token(episode.TokenPurpose), s.Log)
}

// Start serves the episodes at a separate address if the configuration names one, and returns the URL by
// which servers reach them. api is the URL of the host's API.
func (s episodeService) Start(
	parts *tier.Parts,
	c config.Worker,
	episodes *toolservice.Table,
	api string,
) (url string, err error) {
	if c.ToolsListen == "" {
		return cmp.Or(c.ToolsURL, api), nil
	}

	l, err := listen.TCP("the tool service", c.ToolsListen, "worker.tools_listen (ROLLOUTD_TOOLS_LISTEN)")
	if err != nil {
		return "", err
	}

	parts.Add(tier.ServeHTTP(l, s.handler(episodes)))

	return cmp.Or(c.ToolsURL, "http://"+l.Addr().String()), nil
}
