package daemon

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// One listener serves the host's API and, below its address, the host's episodes.
func TestOneListener(t *testing.T) {
	t.Parallel()
	key, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)
	service, table := episodeService{Key: key, Log: slog.New(slog.DiscardHandler)}, toolservice.NewTable(t.TempDir())

	host := httptest.NewServer(
		service.With(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
			table,
		),
	)
	defer host.Close()

	none, url, err := listenForEpisodes(config.Worker{}, host.URL)
	require.NoError(t, err)
	require.Nil(t, none)
	require.Equal(t, host.URL, url)

	_, err = episode.NewClient(url, key.Token(episode.TokenPurpose), http.DefaultClient).Status(t.Context(), "none", 0)
	require.True(t, fault.Is(err, fault.Unavailable), err)
	_, err = episode.NewClient(url, "another", http.DefaultClient).Status(t.Context(), "none", 0)
	require.True(t, fault.Is(err, fault.Unauthorized), err)
	other, err := http.Get(url + "/status")
	require.NoError(t, err)
	require.NoError(t, other.Body.Close())
	require.Equal(t, http.StatusTeapot, other.StatusCode)

	own, apart, err := listenForEpisodes(config.Worker{ToolsListen: "127.0.0.1:0"}, host.URL)
	require.NoError(t, err)

	served := tier.ServeHTTP(own, service.handler(table))
	defer func() { require.NoError(t, served.Stop(t.Context())) }()

	require.NotEqual(t, host.URL, apart)
	_, err = episode.NewClient(apart, key.Token(episode.TokenPurpose), http.DefaultClient).
		Status(t.Context(), "none", 0)
	require.True(t, fault.Is(err, fault.Unavailable), err)
}
