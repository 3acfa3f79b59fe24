package daemon_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
)

func listener(t *testing.T) (net.Listener, string) {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	return l, "http://" + l.Addr().String()
}

// get sends the response or the error.
func get(url string, answer chan<- string) {
	// the stop of the server bounds it
	resp, err := http.Get(url)
	if err != nil {
		answer <- err.Error()
		return
	}
	defer resp.Body.Close()

	body, err := io.ReadAll(resp.Body)
	answer <- string(body) + errorText(err)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}

	return err.Error()
}

// refuses reports whether addr refuses connections.
func refuses(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return true
	}
	// nothing was sent on it
	_ = c.Close()

	return false
}

// A request in flight when the process stops is answered.
func TestStopLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	l, url := listener(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	r := tier.ServeHTTP(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave

		_, _ = io.WriteString(w, "done")
	}))

	answer := make(chan string, 1)
	go get(url, answer)

	<-entered

	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(t.Context()) }()

	require.Eventually(t, func() bool { return refuses(l.Addr().String()) }, 5*time.Minute, time.Millisecond)
	close(leave)
	require.Equal(t, "done", <-answer)
	require.NoError(t, <-stopped)
}

// A request that takes longer than the budget is canceled with its own cause.
func TestStopCancelsWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	l, url := listener(t)
	entered := make(chan struct{})
	r := tier.ServeHTTP(l, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		close(entered)
		<-req.Context().Done()

		if errors.Is(context.Cause(req.Context()), tier.ErrStopping) {
			_, _ = io.WriteString(w, "stopping")
		}
	}))

	answer := make(chan string, 1)
	go get(url, answer)

	<-entered

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	require.NoError(t, r.Stop(ctx))
	require.Equal(t, "stopping", <-answer)
}

func TestBackgroundReportsItsEnd(t *testing.T) {
	t.Parallel()

	r := tier.Background(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	require.NoError(t, r.Stop(t.Context()))

	boom := errors.New("boom")
	r = tier.Background(func(context.Context) error { return boom })
	require.ErrorIs(t, <-r.Done, boom)
	require.ErrorIs(t, r.Stop(t.Context()), boom)
}

func TestCodecIsBehindTheTokens(t *testing.T) {
	t.Parallel()

	reached := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	ab := []envserver.Token{envserver.PlainToken("a"), envserver.PlainToken("b")}
	client := envserver.PlainToken("c")

	client.Scope = envserver.ScopeClient
	for _, c := range []struct {
		tokens       []envserver.Token
		method, auth string
		want         int
	}{
		{nil, http.MethodPost, "", http.StatusTeapot},
		{ab, http.MethodPost, "Bearer b", http.StatusTeapot},
		{ab, http.MethodPost, "Bearer c", http.StatusUnauthorized},
		{ab[:1], http.MethodPost, "", http.StatusUnauthorized},
		{ab[:1], http.MethodOptions, "", http.StatusTeapot},
		{[]envserver.Token{client}, http.MethodPost, "Bearer c", http.StatusForbidden},
	} {
		req := httptest.NewRequest(c.method, "/codec/decode", nil)
		req.Header.Set("Authorization", c.auth)

		rec := httptest.NewRecorder()
		daemon.Admit(c.tokens, reached).ServeHTTP(rec, req)
		require.Equal(t, c.want, rec.Code, c.auth)
	}
}
