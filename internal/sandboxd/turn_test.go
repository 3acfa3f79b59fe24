package sandboxd_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd"
)

// asker sends requests to a sandboxd over real connections.
type asker struct {
	t   *testing.T
	url string

	// method and path of each request that reached the server
	seen chan string
}

func newAsker(t *testing.T, writable string) *asker {
	t.Helper()
	a := &asker{t: t, seen: make(chan string, 16)}
	h := sandboxd.New(sandboxd.Options{Writable: []string{writable}}).Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.seen <- r.Method + " " + r.URL.Path

		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	a.url = srv.URL

	return a
}

// begin sends a request in the background and returns when it has reached the server. The channel receives the status.
func (a *asker) begin(method, path, file string, body io.Reader) <-chan int {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path+"?path="+url.QueryEscape(file), body)
	require.NoError(a.t, err)

	status := make(chan int, 1)

	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			a.t.Error(err)
			close(status)

			return
		}

		res.Body.Close()

		status <- res.StatusCode
	}()

	require.Equal(a.t, method+" "+path, <-a.seen)

	return status
}

// A write waits until the call of another caller has ended. A read does not wait.
func TestChangesAreMadeOneAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "w", "a")
	a := newAsker(t, dir)
	body, feed := io.Pipe()
	first := a.begin(http.MethodPut, "/v1/files", file, body)
	_, err := feed.Write([]byte("half"))
	require.NoError(t, err)
	// the first request is running
	require.Eventually(t, func() bool {
		left, _ := filepath.Glob(filepath.Join(dir, "w", "*"))
		hidden, _ := filepath.Glob(filepath.Join(dir, "w", ".*"))

		return len(left)+len(hidden) > 0
	}, 5*time.Minute, time.Millisecond)

	removal := a.begin(http.MethodDelete, "/v1/files", filepath.Join(dir, "w"), http.NoBody)
	require.Equal(t, http.StatusNotFound, <-a.begin(http.MethodGet, "/v1/files", file, http.NoBody))

	select {
	case <-removal:
		require.Fail(t, "removed while it was written")
	default:
	}

	require.NoError(t, feed.Close())
	require.Equal(t, http.StatusNoContent, <-first)
	require.Equal(t, http.StatusNoContent, <-removal)
	require.NoFileExists(t, file, "it was removed once it was there")

	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
