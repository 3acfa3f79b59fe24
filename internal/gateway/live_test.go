package gateway_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

func passThrough(o *gateway.Options) { o.PassThrough = true }

// begin makes a call and returns the response as soon as it begins.
func begin(t *testing.T, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodPost,
		url+"/v1/chat/completions",
		strings.NewReader(body),
	)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })

	return res
}

// replyWithoutEnd returns the part of the good reply before its last event with a choice.
func replyWithoutEnd() string {
	return goodReply[:strings.LastIndex(goodReply, `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[{`)]
}

// A passed-through reply reaches the agent before the engine has finished it. The end of the reply follows
// once the reply is recorded.
func TestPassThrough(t *testing.T) {
	t.Parallel()

	recording, recorded := make(chan struct{}), make(chan struct{})
	hang := newHanging(replyWithoutEnd(), goodReply[len(replyWithoutEnd()):])
	h := newHost(t, passThrough, syncing(recording, recorded))
	res := begin(t, h.open(t, h.route(newEngine(t, hang.serve).URL)), streamed)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))

	got := make([]byte, len(replyWithoutEnd()))
	_, err := io.ReadFull(res.Body, got)
	require.NoError(t, err)
	require.Equal(t, replyWithoutEnd(), string(got))
	close(hang.release)

	rest := make(chan string, 1)

	go func() { b, _ := io.ReadAll(res.Body); rest <- string(b) }()

	await(t, recording)
	close(recorded)
	require.Equal(t, goodReply[len(replyWithoutEnd()):], await(t, rest))
	require.Eventually(t, func() bool { return h.turns(t, "r1.1")[0].Delivered }, patience, time.Millisecond)
	require.Equal(t, []int32{10, 11}, h.turns(t, "r1.1")[0].CompletionTokenIDs)
}

// Each complete event is passed on with unchanged bytes, regardless of the engine's line endings.
func TestPassThroughOfEveryLineEnd(t *testing.T) {
	t.Parallel()

	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			reply, first := strings.ReplaceAll(goodReply, "\n", end), strings.ReplaceAll(
				": hello\n\n"+replyWithoutEnd(),
				"\n",
				end,
			)
			hang := newHanging(first, reply[len(first)-len(": hello"+end+end):])
			h := newHost(t, passThrough)
			res := begin(t, h.open(t, h.route(newEngine(t, hang.serve).URL)), streamed)
			got := make([]byte, len(first))
			_, err := io.ReadFull(res.Body, got)
			require.NoError(t, err, "while the engine still has the rest")
			require.Equal(t, first, string(got))
			close(hang.release)

			rest, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, ": hello"+end+end+reply, first+string(rest))
			require.Equal(t, []int32{10, 11}, h.turns(t, "r1.1")[0].CompletionTokenIDs)
		})
	}
}

// An agent never gets the end of a reply that is not recorded, so it does not treat the reply as complete.
func TestPassThroughOfWhatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	h := newHost(t, passThrough, func(o *gateway.Options) {
		o.Trace.Sync = func(*os.File) error { return errors.New("disk is gone") }
	})
	// The gap between the event with the finish reason and the end mark exceeds one read.
	reply := strings.Replace(goodReply, "data: [DONE]", strings.Repeat(": still here\n\n", 100_000)+"data: [DONE]", 1)
	got := send(t.Context(), h.open(t, h.route(newEngine(t, says(reply)).URL)), "", streamed)
	require.NotContains(t, got.body, `"finish_reason":"stop"`)
	require.NotContains(t, got.body, "[DONE]")
	require.Contains(t, got.body, "could not record this call")
}

// Members that only the gateway requested are not passed through, and neither is the key.
func TestPassThroughRemovesTheGatewaysMembers(t *testing.T) {
	t.Parallel()

	text := strings.Replace(goodReply, `"Hel"`, `"`+canary+`"`, 1)
	h := newHost(t, passThrough)
	got := send(t.Context(), h.open(t, h.route(newEngine(t, says(text)).URL)), "", `{"stream":true,"messages":[]}`)
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, "[redacted]")
	require.Contains(t, got.body, `"finish_reason":"stop"`)

	for _, own := range []string{canary, "token_ids", `"usage"`, `"logprob"`} {
		require.NotContains(t, got.body, own)
	}

	require.Equal(t, []int32{10, 11}, h.turns(t, "r1.1")[0].CompletionTokenIDs)
}

// A break before the first byte to the agent is retried. A later break is sent to the agent as an error
// event and recorded.
func TestPassThroughOfABrokenReply(t *testing.T) {
	t.Parallel()
	h := newHost(t, passThrough)
	e := newEngine(t, answers(503, ""), cutOff(""), cutOff(replyWithoutEnd()), says(goodReply))
	got := send(t.Context(), h.open(t, h.route(e.URL)), "", streamed)
	require.Equal(t, http.StatusOK, got.status)
	require.NoError(t, got.err)
	last, ok := strings.CutPrefix(got.body, replyWithoutEnd())
	require.True(t, ok, got.body)
	require.Contains(t, last, `data: {"error":{"message":"The model endpoint's reply broke off`)
	require.NotContains(t, got.body, "[DONE]")
	requireNoRetryWords(t, last)
	require.Len(t, e.requests(), 3)
	turn := h.turns(t, "r1.1")[0]
	require.Contains(t, turn.Broken, "failed: the reply was cut off")
	require.False(t, turn.Delivered)
	require.False(t, turn.Train)
	require.Contains(t, string(turn.Response), "Hel")
	requireFailure(t, h, fault.UpstreamFailed, "cut off")
}

// If the agent has received nothing of a broken upstream request, the next one is passed through from its beginning.
func TestPassThroughAfterARequestWithoutContent(t *testing.T) {
	t.Parallel()

	counts := `data: {"id":"c0","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":0}}` + "\n\n"

	const ask = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`

	completed := newHost(t)
	want := send(t.Context(), completed.open(t, completed.route(newEngine(t, says(goodReply)).URL)), "", ask).body

	hang := newHanging(replyWithoutEnd(), goodReply[len(replyWithoutEnd()):])
	h := newHost(t, passThrough)
	e := newEngine(t, cutOff(strings.Repeat(counts, 20)), hang.serve)
	res := begin(t, h.open(t, h.route(e.URL)), ask)
	got := make([]byte, len("data: {"))
	_, err := io.ReadFull(res.Body, got)
	require.NoError(t, err)
	close(hang.release)

	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, want, string(got)+string(rest))
	require.Len(t, e.requests(), 2)
}

// An agent that waits for a stream gets comments until the reply or an error event follows. An agent that
// did not request a stream gets nothing before its reply.
func TestKeepAlive(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		step  http.HandlerFunc
		after string
	}{
		"whole":   {says(goodReply), goodReply},
		"refused": {answers(404, `{"error":{"message":"no such model, try again 500"}}`), `data: {"error":{"message":"The model endpoint refused`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			release := make(chan struct{})
			h := newHost(t, func(o *gateway.Options) { o.KeepAlive = time.Millisecond })
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request) { <-release; tc.step(w, r) })
			url := h.open(t, h.route(e.URL))

			body := bufio.NewReader(begin(t, url, streamed).Body)
			for range 3 {
				line, err := body.ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, ": keep-alive\n", line)

				_, err = body.ReadString('\n')
				require.NoError(t, err)
			}

			quiet, status := startSend(t, url, "", unary), http.StatusOK

			close(release)

			rest, err := io.ReadAll(body)
			require.NoError(t, err)

			said := strings.ReplaceAll(string(rest), ": keep-alive\n\n", "")
			require.True(t, strings.HasPrefix(said, tc.after), said)

			if name == "refused" {
				requireNoRetryWords(t, said)

				status = http.StatusBadRequest
			}

			require.Equal(t, status, await(t, quiet).status)
		})
	}
}

// syncing closes announce at the first sync of a record and blocks each sync until letGo is closed.
func syncing(announce chan<- struct{}, letGo <-chan struct{}) func(*gateway.Options) {
	first := sync.OnceFunc(func() { close(announce) })

	return func(o *gateway.Options) {
		o.Trace.Sync = func(*os.File) error {
			first()
			<-letGo

			return nil
		}
	}
}
