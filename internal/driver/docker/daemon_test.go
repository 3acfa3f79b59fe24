package docker_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/docker"
)

// A call does not wait longer than its own context for a daemon that hangs, and one request is made for all calls.
func TestDaemonThatHangs(t *testing.T) {
	t.Parallel()

	asked, release := make(chan struct{}, 10), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}

		<-release
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(srv.Close)

	d, err := docker.New(docker.Options{
		Dir:          t.TempDir(),
		BridgeDir:    t.TempDir(),
		SandboxdPath: world.sandboxd,
		Daemon:       docker.Daemon{Host: strings.Replace(srv.URL, "http://", "tcp://", 1)},
	})
	require.NoError(t, err)

	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- d.Probe(t.Context()) }()

	<-asked

	gone, leave := context.WithCancel(t.Context())
	leave()

	go func() { second <- d.Probe(gone) }()

	select {
	case err := <-second:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(10 * time.Second):
		close(release)
		t.Fatal("it waits for the daemon")
	}

	require.Empty(t, asked)
	close(release)
	require.Error(t, <-first)
}
