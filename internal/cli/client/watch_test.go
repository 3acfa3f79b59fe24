package client_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// frozen is a server that stands still: it answers nothing, or writes parts of a stream of events before.
type frozen struct {
	parts []string

	// before each part
	pause time.Duration
}

// RoundTrip implements http.RoundTripper.
func (f frozen) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(f.parts) == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}

	body, server := io.Pipe()

	context.AfterFunc(r.Context(), func() { server.CloseWithError(r.Context().Err()) })

	go func() {
		for _, part := range f.parts {
			time.Sleep(f.pause)

			_, _ = io.WriteString(server, part)
		}
	}()

	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
}

// A server that stands still does not hold a command for ever. A stream whose server writes at times goes on.
func TestSilentServer(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		server frozen
		ask    func(context.Context, *client.Client) error
		after  time.Duration
		want   string
	}{
		"answer": {
			frozen{},
			func(ctx context.Context, c *client.Client) error {
				_, err := c.State(ctx, "r")
				return err
			},
			15 * time.Minute,
			"http://host has not answered for 15m0s",
		},
		"events": {
			frozen{slices.Repeat([]string{": still here\n\n"}, 40), 15 * time.Second},
			func(ctx context.Context, c *client.Client) error {
				return c.Events(ctx, "r", 0, func(rollout.Event) {})
			},
			11 * time.Minute,
			"http://host ended the stream of events early",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				began := time.Now()

				err := c.ask(t.Context(), &client.Client{URL: "http://host", HTTP: &http.Client{Transport: c.server}})
				require.EqualError(t, err, c.want)
				require.True(t, fault.Is(err, fault.Unavailable))
				require.Equal(t, c.after, time.Since(began))
			})
		})
	}
}

// A command whose reader takes his time, as in a pager, does not take the server for a silent one.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := frozen{parts: []string{"event: phase\ndata: {}\n\n", "event: phase\ndata: {}\n\n", "event: done\ndata: {}\n\n"}}
		c := client.Client{URL: "http://host", HTTP: &http.Client{Transport: events}}
		seen := 0

		require.NoError(t, c.Events(t.Context(), "r", 0, func(rollout.Event) {
			seen++

			time.Sleep(time.Hour)
		}))
		require.Equal(t, 3, seen)
	})
}
