package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// serveTools answers tool calls with fixed texts.
func serveTools(t *testing.T, texts map[string]string) *client.Client {
	t.Helper()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			_, _ = io.WriteString(w, texts["events"])
			return
		}

		var req struct {
			Params struct{ Name string }
		}
		// an empty name has no text
		_ = json.NewDecoder(r.Body).Decode(&req)
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]any{
			"content": []any{map[string]any{"type": "text", "text": texts[req.Params.Name]}},
		}})
	}))
	t.Cleanup(srv.Close)

	return &client.Client{URL: srv.URL, HTTP: srv.Client()}
}

func TestRunFollowsARolloutToItsResult(t *testing.T) {
	t.Parallel()
	c := serveTools(t, map[string]string{
		"start_rollout":    `{"rollout_id":"r1","task_id":"t","status":"starting"}`,
		"events":           ": events follow\n\nid: 1\nevent: done\ndata: {\"phase\":\"done\",\"finished_at\":\"2027-01-15T08:00:01Z\"}\n\n",
		"finalize_rollout": `{"rollout_id":"r1","outcome":"completed","reward":0.5,"of_the_future":1}`,
	})

	var out strings.Builder

	r, raw, err := cli.Run(t.Context(), c, map[string]any{"instruction": "x"}, &out)
	require.NoError(t, err)
	require.Equal(t, rollout.Completed, r.Outcome)
	require.InDelta(t, 0.5, *r.Reward, 0)
	require.Contains(t, string(raw), "of_the_future", "fields this build does not know are kept")
	require.Contains(t, out.String(), "rollout r1\n")
	require.Contains(t, out.String(), "done")
}

// A detached run prints how to return to the rollout.
func TestDetachedRunSaysHowToReturn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	c := serveTools(t, map[string]string{"start_rollout": `{"rollout_id":"r1"}`, "events": ": events follow\n\n"})

	var out detachAt

	out.cancel = func() { cancel(cli.ErrDetached) }
	_, _, err := cli.Run(ctx, c, nil, &out)
	require.ErrorIs(t, err, cli.ErrDetached)
	require.Contains(t, out.String(), "rolloutd show r1")
	require.Contains(t, out.String(), "rolloutd abort r1")
}

// detachAt cancels at the first write, which has the rollout's id.
type detachAt struct {
	strings.Builder
	cancel func()
}

func (d *detachAt) Write(p []byte) (int, error) {
	d.cancel()
	return d.Builder.Write(p)
}

// A result without an outcome carries the error of a server that had no result in time.
func TestResultWithoutOutcomeIsAnError(t *testing.T) {
	t.Parallel()
	c := serveTools(t, map[string]string{
		"events":           "event: done\ndata: {}\n\n",
		"finalize_rollout": `{"outcome":"","error":"timeout waiting for rollout_id=r1"}`,
	})
	_, _, err := cli.Follow(t.Context(), c, "r1", &strings.Builder{})
	require.ErrorContains(t, err, "timeout waiting")
}
