package toolservice_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
)

// Calls do not wait for each other: with 64 episodes, and with 64 calls in one episode, the last call is
// answered while all others are running.
func TestNoBarrier(t *testing.T) {
	t.Parallel()

	const many = 64

	for name, episodeOf := range map[string]func(int) string{
		"64 episodes": func(i int) string { return fmt.Sprintf("r%d.1", i) },
		"one episode": func(int) string { return "r.1" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, table := newCounted(), toolservice.NewTable(t.TempDir())
			srv := httptest.NewServer(table.Handler("secret", slog.New(slog.DiscardHandler)))
			t.Cleanup(srv.Close)

			opened := map[string]bool{}

			for i := range many {
				id := episodeOf(i)
				if opened[id] {
					continue
				}

				opened[id] = true
				_, closeIt, err := table.Open(toolservice.Options{ID: id, Tools: tools})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, closeIt()) })
			}

			c := episode.NewClient(srv.URL, "secret", http.DefaultClient)

			var slow sync.WaitGroup
			for i := range many - 1 {
				slow.Go(func() {
					_, err := c.Call(t.Context(), episodeOf(i), call(fmt.Sprint("slow-", i), "wait", ""))
					assert.NoError(t, err)
				})
			}

			for i := range many - 1 {
				tools.begins(fmt.Sprint("slow-", i))
			}

			a, err := c.Call(t.Context(), episodeOf(many-1), call("fast", "bash", ""))
			require.NoError(t, err)
			require.Equal(t, 1, a.Steps)
			close(tools.release)
			slow.Wait()
		})
	}
}
