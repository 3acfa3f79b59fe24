package scripted_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatusFaultsComeInTurnAndThenTheReply(t *testing.T) {
	t.Parallel()
	s := serve(t, `
turns:
  - text: fine
    faults:
      - {times: 2, status: 429, retry_after: 1500ms}
      - {times: 1, status: 401, message: "no such key", echo_key: true}
`)

	want := []int{429, 429, 401, 200, 200}
	for i, status := range want {
		resp := s.post(t.Context(), t, streamRequest(user("x")))
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode, "call %d", i)

		switch status {
		case 429:
			require.Equal(t, "2", resp.Header.Get("Retry-After"))
			require.Contains(t, string(text), `"rate_limit_error"`)
		case 401:
			require.Contains(t, string(text), "no such key: sk-secret")
		}
	}

	sent := s.log.sent(t)
	require.Len(t, sent, len(want))

	for i := range sent {
		require.Equal(t, want[i], sent[i].Status)
		require.Equal(t, want[i] == http.StatusOK, sent[i].Complete)
	}
}

// Each session counts its own faults, so that parallel rollouts see the same script.
func TestFaultsAreCountedBySession(t *testing.T) {
	t.Parallel()
	s := serve(t, "turns: [{text: fine, faults: [{times: 1, status: 503}]}]")

	for _, session := range []string{"a", "b"} {
		for _, want := range []int{503, 200} {
			req, err := http.NewRequestWithContext(
				t.Context(),
				http.MethodPost,
				s.URL+"/v1/chat/completions",
				encode(t, streamRequest(user("x"))),
			)
			require.NoError(t, err)
			req.Header.Set("X-Session-Id", session)
			resp, err := s.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.StatusCode)
		}
	}
}

func TestStreamFaults(t *testing.T) {
	t.Parallel()

	const text = "turns: [{text: one two three four, faults: ["

	for name, c := range map[string]struct {
		fault string

		// received tokens
		tokens int

		// received finish reason
		finish string
		done   bool

		// the connection ended with an error
		broken bool
		last   string
	}{
		"cut":          {fault: "{cut_after: 2}", tokens: 2, broken: true},
		"cut at once":  {fault: "{cut_after: 0}", broken: true},
		"cut late":     {fault: "{cut_after: 99}", tokens: 4, broken: true},
		"error event":  {fault: "{error_after: 3}", tokens: 3, last: "error"},
		"no finish":    {fault: "{no_finish: true}", tokens: 4, done: true},
		"merely late":  {fault: "{delay: 5ms}", tokens: 5, finish: "stop", done: true},
		"no complaint": {fault: "", tokens: 5, finish: "stop", done: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, text+c.fault+"]}]")
			all, done, err := events(s.post(t.Context(), t, streamRequest(user("x"))))
			require.Equal(t, c.broken, err != nil, "%v", err)
			require.Equal(t, c.done, done)

			if c.last != "" {
				require.Contains(t, all[len(all)-1], c.last)
				all = all[:len(all)-1]
			}

			got := join(t, all)
			require.Len(t, got.tokens, c.tokens)
			require.Equal(t, c.finish, got.finish)
			require.Eventually(t, func() bool { return len(s.log.sent(t)) == 1 }, 5*time.Minute, time.Millisecond)
			sent := s.log.sent(t)[0]
			require.Len(t, sent.CompletionTokenIDs, c.tokens)
			require.Equal(t, c.done, sent.Complete)
		})
	}
}

func TestUnusableReplies(t *testing.T) {
	t.Parallel()

	for fault, contentType := range map[string]string{"not_sse": "application/json", "garbage": "text/event-stream"} {
		s := serve(t, "turns: [{text: x, faults: [{"+fault+": true}]}]")
		resp := s.post(t.Context(), t, streamRequest(user("x")))
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, contentType, resp.Header.Get("Content-Type"))
		require.Equal(t, http.StatusOK, s.log.sent(t)[0].Status)
	}
}

// A hang ends when the caller disconnects. The server detects that and logs the call.
func TestHangs(t *testing.T) {
	t.Parallel()

	s := serve(t, `
- {match: silent, turns: [{text: x, faults: [{hang: true}]}]}
- {match: whole, turns: [{text: x, faults: [{hang_after: 0}]}]}
- {turns: [{text: one two three, faults: [{hang_after: 2}]}]}
`)
	for i, request := range []object{
		streamRequest(user("silent")),
		{"messages": []any{user("whole")}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ctx = httptrace.WithClientTrace(
			ctx,
			&httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }},
		)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", encode(t, request))
		require.NoError(t, err)
		_, err = s.Client().Do(req)

		cancel()
		require.ErrorIs(t, err, context.Canceled)
		require.Eventually(t, func() bool { return len(s.log.sent(t)) == i+1 }, 5*time.Minute, time.Millisecond)
	}

	ctx, cancel := context.WithCancel(t.Context())
	resp := s.post(ctx, t, streamRequest(user("stall")))
	head := make([]byte, 1)
	_, err := io.ReadFull(resp.Body, head)
	require.NoError(t, err)
	cancel()
	require.Eventually(t, func() bool { return len(s.log.sent(t)) == 3 }, 5*time.Minute, time.Millisecond)
	require.Len(t, s.log.sent(t)[2].CompletionTokenIDs, 2)
	require.False(t, s.log.sent(t)[2].Complete)
}

// A slow stream ends at once when the caller disconnects; the log has the part that was sent.
func TestDisconnectStopsGeneration(t *testing.T) {
	t.Parallel()
	s := serve(t, "{pace: {tokens_per_second: 50, tokens_per_chunk: 2}, turns: [{filler: 100000}]}")
	ctx, cancel := context.WithCancel(t.Context())
	resp := s.post(ctx, t, streamRequest(user("x")))
	_, err := io.ReadFull(resp.Body, make([]byte, 100))
	require.NoError(t, err)
	cancel()
	require.Eventually(t, func() bool { return len(s.log.sent(t)) == 1 }, 5*time.Minute, time.Millisecond)
	require.False(t, s.log.sent(t)[0].Complete)
}
