package daemon

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/config"
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

// listenForEpisodes opens a listener if the configuration has a separate address for episodes (else nil), and
// returns the URL by which servers reach them. api is the URL of the host's API.
func listenForEpisodes(c config.Worker, api string) (l *net.TCPListener, url string, err error) {
	if c.ToolsListen == "" {
		return nil, cmp.Or(c.ToolsURL, api), nil
	}

	l, err = listen.TCP("the tool service", c.ToolsListen, "worker.tools_listen (ROLLOUTD_TOOLS_LISTEN)")
	if err != nil {
		return nil, "", err
	}

	return l, cmp.Or(c.ToolsURL, "http://"+l.Addr().String()), nil
}
