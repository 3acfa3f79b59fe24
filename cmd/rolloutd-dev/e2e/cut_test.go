package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// Hundreds of clients wait for one rollout. The socket of each client is cut after a
// different number of bytes: of those that it sends (requests, a pong) or of those that it receives
// (answers, a timeout error, pings, the result). Each client connects again, and all get the same result of
// one workflow and one sandbox.
//
// The environment variable ROLLOUTD_LONG_CUT may have a duration such as 10m. The rollout then has twelve
// slow turns that take this time together, and the cuts are spread over it. The test's -timeout must be
// longer.
func TestSocketCutAtAnyByte(t *testing.T) {
	t.Parallel()
	turns, span, pace := cutLength(t)
	gate := startGate(t, longScript("terminal", turns, pace))
	srv := startDev(t, devOptions{modelURL: gate.url, env: []string{"MAX_CONCURRENT_ENVS=4000"}})
	id := start(t, srv.url, args{
		"instruction": "take ages", "endpoint": "scripted", "rollout_id": "cut", "agent_timeout_s": patienceS,
		"agent": rollout.AgentReact, "react": args{"tools": "native"},
		"verify": []string{"test $(wc -l < log.txt) -eq " + fmt.Sprint(turns)},
	})
	reading := make(chan struct{}, 8)
	cuts := cutPlan(t, rolloutClient{srv.url, "ep-0000", id, reading})

	var early, all sync.WaitGroup

	results := make([]string, len(cuts))

	errs := make([]error, len(cuts))
	for i, c := range cuts {
		if c.early {
			early.Add(1)
		}

		all.Go(func() {
			// The first clients wait for the whole rollout. The others connect at equal intervals during the rollout.
			time.Sleep(span * time.Duration(i) / time.Duration(len(cuts)))
			j := rolloutClient{srv.url, fmt.Sprintf("ep-%04d", i+1), id, reading}

			errs[i] = j.untilCut(t.Context(), c.send, c.receive)
			if c.early {
				early.Done()
			}

			if errs[i] != nil {
				return
			}

			question := j.run(patienceS)
			if i%2 == 1 {
				question = j.finalize()
			}

			text, err := j.reconnect(t.Context(), question)
			// equal results share memory
			results[i], errs[i] = unique.Make(text).Value(), err
		})
	}
	// all early cuts have happened while the rollout ran
	early.Wait()
	gate.open()
	all.Wait()

	for i, err := range errs {
		require.NoError(t, err, "cut %+v", cuts[i])
		require.Equal(t, results[0], results[i], "cut %+v", cuts[i])
	}

	result := decode[rollout.Result](t, results[0])
	t.Logf("%d connections were cut under a rollout of %.0f s with a result of %d KB; the server took at most %s",
		len(cuts), result.WallS, len(results[0])>>10, srv.peakMemory(t))
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.InDelta(t, 1.0, *result.Reward, 0)
	require.Len(t, result.Attempts, 1)
	require.Equal(t, turns+1, len(result.ProxyTurns))
	require.Equal(t, []string{rollout.WorkflowID(id)}, srv.workflows(t))
	require.Equal(t, 1, count(srv.activityNames(t, id), "CreateSandbox"))
	require.Empty(t, srv.sandboxes(t))
}

// cutLength returns the number of the agent's commands, the time over which the connections are cut, and
// the delay of each model reply.
func cutLength(t *testing.T) (turns int, span, pace time.Duration) {
	t.Helper()

	long := os.Getenv("ROLLOUTD_LONG_CUT")
	if long == "" {
		return 2, 10 * time.Second, time.Second
	}

	span, err := time.ParseDuration(long)
	require.NoError(t, err, "ROLLOUTD_LONG_CUT")

	const dozen = 12
	// the agent's start and its final reply take time, too
	return dozen, span, span / (dozen + 2)
}

// cut says after how many bytes of one direction a connection is cut.
type cut struct {
	send, receive int

	// the cut happens while the rollout runs
	early bool
}

// cutPlan returns cuts at the bytes of a connection that resets, sends a request, gets a timeout error,
// sends the request again, gets a ping, and gets the result. It measures the number of bytes with one
// client that is not cut. The cuts near the end of the connection come first.
func cutPlan(t *testing.T, j rolloutClient) []cut {
	t.Helper()

	const ping, pong = 2, 6

	c, err := j.dial(t.Context(), unbounded, unbounded)
	require.NoError(t, err)

	shakeSent, shakeReceived := c.bytes.counts()

	var sent, received int

	done := make(chan struct{})
	// ends with the connection
	go func() {
		defer close(done)

		_, _ = j.askTwice(c, func() { sent, received = c.bytes.counts(); _ = c.NetConn().Close() })
	}()

	<-done
	require.Greater(t, received, shakeReceived+200, "no answers came")

	var plan []cut
	for n := 1 << 15; n > 64; n /= 2 {
		plan = append(plan, cut{send: unbounded, receive: received + n})
	}

	for n := 64; n > ping; n-- {
		plan = append(plan, cut{send: unbounded, receive: received + n})
	}

	walk := func(from, to, by int, at func(int) cut) {
		for n := from; n < to; n += by {
			plan = append(plan, at(n))
		}
	}
	sending := func(n int) cut { return cut{send: n, receive: unbounded, early: true} }
	receiving := func(n int) cut { return cut{send: unbounded, receive: n, early: true} }
	walk(received+1, received+ping+1, 1, receiving)
	walk(sent+1, sent+pong+1, 1, sending)
	walk(shakeReceived, received+1, 1, receiving)
	walk(shakeSent, sent+1, 1, sending)
	// only every 16th byte of the HTTP handshake
	walk(0, shakeReceived, 16, receiving)
	walk(0, shakeSent, 16, sending)

	return plan
}

// gate is a scripted model that holds its last reply until open is called.
type gate struct {
	url string

	// closed when the model holds the reply
	reached <-chan struct{}
	open    func()
}

func startGate(t *testing.T, script string) gate {
	t.Helper()

	scripts, err := scripted.Load(strings.NewReader(script))
	require.NoError(t, err)

	play := scripted.New(scripted.Options{Scripts: scripts})
	opened, reached := make(chan struct{}), make(chan struct{})
	reach := sync.OnceFunc(func() { close(reached) })
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}

		if bytes.Contains(body, []byte("the-gate-is-near")) {
			reach()

			select {
			case <-opened:
			case <-r.Context().Done():
				return
			}
		}

		r.Body = io.NopCloser(bytes.NewReader(body))
		play.ServeHTTP(w, r)
	}))

	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })

	return gate{srv.URL + "/v1", reached, sync.OnceFunc(func() { close(opened) })}
}

// longScript makes the agent run a number of commands with its tool. The gate holds the model call that follows the
// last one.
func longScript(tool string, commands int, pace time.Duration) string {
	text := fmt.Sprintf("- match: take ages\n  pace: {delay: %s}\n  turns:\n", pace)
	for i := range commands {
		say := fmt.Sprintf("step-%d", i)
		if i == commands-1 {
			say = "the-gate-is-near"
		}

		text += fmt.Sprintf(
			"    - tool_calls: [{name: %s, arguments: {command: \"echo %s >> log.txt\", description: \"Go on\"}}]\n",
			tool,
			say,
		)
	}

	return text + "    - text: Done.\n"
}

func count(names []string, name string) int {
	return len(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n != name }))
}
