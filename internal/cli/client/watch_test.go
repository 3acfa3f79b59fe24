package client_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// frozen is a server that stands still: it answers nothing, or ends a stream of events after some comments.
type frozen struct{ comments int }

// RoundTrip implements http.RoundTripper.
func (f frozen) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.comments == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}

	body, server := io.Pipe()

	context.AfterFunc(r.Context(), func() { server.CloseWithError(r.Context().Err()) })

	go func() {
		for range f.comments {
			time.Sleep(15 * time.Second)

			_, _ = io.WriteString(server, ": still here\n\n")
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
			frozen{comments: 40},
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
