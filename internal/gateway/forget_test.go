package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// line is a Dialer that passes each channel's handler to the test.
type line chan http.Handler

func (l line) ServeModel(ctx context.Context, _ string, h http.Handler, served func()) error {
	served()

	select {
	case l <- h:
	case <-ctx.Done():
	}

	<-ctx.Done()

	return nil
}

// request makes a request of the admin or the trainer API without a network.
func request(t *testing.T, h http.Handler, token, method, path string, body any) int {
	t.Helper()

	text, err := json.Marshal(body)
	require.NoError(t, err)
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(string(text)))
	req.Header.Set("Authorization", "Bearer "+token)

	out := httptest.NewRecorder()
	h.ServeHTTP(out, req)

	return out.Code
}

func routeTo(id, endpoint, url string) gatewayapi.Route {
	return gatewayapi.Route{
		ID: id, RolloutID: id, SandboxID: id,
		Model:  rollout.Model{Endpoint: endpoint, Own: endpoint != "", BaseURL: url, Name: "m"},
		Limits: rollout.Limits{Call: 5 * time.Second},
	}
}

// A trainer may use another address for every rollout. The gateway forgets the state of an address that no
// route uses any more.
func TestUnusedAddressesAreForgotten(t *testing.T) {
	t.Parallel()
	key, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)
	s, err := gateway.New(gateway.Options{
		Dir:       t.TempDir(),
		Key:       key,
		Endpoints: []string{"vllm"},
		Bounds:    func(string) limits.Bounds { return limits.Bounds{Rate: 5} },
	})
	require.NoError(t, err)

	api := admin.New(s, admin.Options{Key: key})
	admin, trainer := api.Handler(), api.TrainerHandler()

	const addresses = 10_000
	for i := range addresses {
		host := fmt.Sprintf("10.%d.%d.1:8000", i/256, i%256)
		require.Equal(
			t,
			http.StatusNoContent,
			request(t, admin, key.Token("gateway admin"), "GET", "/ready/vllm@"+host, nil),
		)
		require.Equal(
			t,
			http.StatusOK,
			request(t, trainer, key.Token("gateway trainer"), "GET", "/upstreams/"+host, nil),
		)

		if i%20 < 19 {
			// a route creates a folder on disk, and most requests do not lead to a route
			continue
		}

		route := routeTo(fmt.Sprintf("r%d", i), []string{"", "vllm"}[i/20%2], "http://"+host+"/v1")
		require.Equal(
			t,
			http.StatusNoContent,
			request(t, admin, key.Token("gateway admin"), "PUT", "/routes/"+route.ID, route),
		)

		upstreams, _ := s.Remembered()
		require.Positive(t, upstreams)
		require.Equal(
			t,
			http.StatusNoContent,
			request(t, admin, key.Token("gateway admin"), "DELETE", "/routes/"+route.ID, nil),
		)
	}

	upstreams, _ := s.Remembered()
	require.Zero(t, upstreams)
}

// The gateway keeps an upstream while it is paused, in use, failing or has used up its rate. It forgets the
// upstream afterwards.
func TestUpstreamIsKeptUntilItIsIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
		require.NoError(t, err)

		agents := line(make(chan http.Handler))
		s, err := gateway.New(gateway.Options{
			Dir:       t.TempDir(),
			Key:       key,
			Egress:    loopback(),
			Dialer:    agents,
			Endpoints: []string{"vllm"},
			Backoff:   time.Second,
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())

		over := make(chan error)
		go func() { over <- s.Run(ctx) }()

		api := admin.New(s, admin.Options{Key: key})
		admin := func(method, path string, body any) {
			require.Less(
				t,
				request(t, api.Handler(), key.Token("gateway admin"), method, path, body),
				300,
				"%s %s",
				method,
				path,
			)
		}
		trainer := func(what, name string) {
			require.Less(
				t,
				request(
					t,
					api.TrainerHandler(),
					key.Token("gateway trainer"),
					"POST",
					"/upstreams/"+name+"/"+what,
					map[string]int{"for_s": 60},
				),
				300,
			)
		}
		holds := func(want int, why string) {
			// removes idle upstreams, too
			admin("GET", "/ready/vllm", nil)

			upstreams, _ := s.Remembered()
			require.Equal(t, want, upstreams, why)
		}
		call := func(agent http.Handler) int {
			out := httptest.NewRecorder()
			agent.ServeHTTP(
				out,
				httptest.NewRequestWithContext(t.Context(), "POST", "/v1/chat/completions", strings.NewReader(unary)),
			)

			return out.Code
		}

		const dead, address = "http://127.0.0.1:1/v1", "127.0.0.1:1"
		trainer("pause", address)
		holds(1, "it is paused, and no rollout has it yet")
		admin("PUT", "/routes/a", routeTo("a", "", dead))
		// the handler of route a, before another route is open
		agent := <-agents

		admin("PUT", "/routes/b", routeTo("b", "vllm", dead))
		<-agents

		begun := time.Now()

		first := make(chan int)
		go func() { first <- call(agent) }()

		synctest.Wait()
		holds(2, "they are paused, and a call waits")
		require.Equal(t, http.StatusBadRequest, <-first)
		require.GreaterOrEqual(t, time.Since(begun), time.Minute, "the call was held until the pause was over")
		admin("DELETE", "/routes/b", nil)
		holds(1, "the other's was at rest")
		admin("DELETE", "/routes/a", nil)
		holds(1, "it fails")

		_, lost := s.Remembered()
		require.Equal(t, 1, lost)
		time.Sleep(31 * time.Second)
		holds(0, "that is long ago")

		admin("PUT", "/routes/d", routeTo("d", "", dead))

		agent = <-agents

		holds(1, "it is at rest, and has a route")
		trainer("pause", address)

		begun = time.Now()

		require.Equal(t, http.StatusBadRequest, call(agent))
		require.GreaterOrEqual(t, time.Since(begun), time.Minute, "a pause is of the upstream that the route has")
		admin("DELETE", "/routes/d", nil)
		time.Sleep(31 * time.Second)
		holds(0, "that is long ago")

		for i := range 50 {
			r := routeTo(fmt.Sprint("c", i), "", fmt.Sprintf("http://127.0.0.1:1/%d/v1", i))
			// enough for one upstream request
			r.Limits.Call = 400 * time.Millisecond
			admin("PUT", "/routes/"+r.ID, r)
			require.Equal(t, http.StatusBadRequest, call(<-agents))
			admin("DELETE", "/routes/"+r.ID, nil)

			if i == 48 {
				_, lost = s.Remembered()
				require.Equal(t, 49, lost)
				time.Sleep(31 * time.Second)
			}
		}

		_, lost = s.Remembered()
		require.Equal(t, 1, lost, "the others may be asked again by now")
		time.Sleep(31 * time.Second)
		holds(0, "all are at rest")
		trainer("pause", address)
		holds(1, "it is paused")
		trainer("resume", address)
		holds(0, "it was resumed")
		stop()
		require.NoError(t, <-over)
	})
}

// A call in progress at an address is not forgotten while other rollouts at this address start and end, so
// that a drain waits for it.
func TestUpstreamWithACallIsKept(t *testing.T) {
	t.Parallel()

	hang := newHanging(halfReply(), goodReply[len(halfReply()):])
	h, e := newHost(t), newEngine(t, hang.serve)
	got := startSend(t, h.open(t, h.route(e.URL)), "", streamed)
	await(t, hang.begun)

	address := strings.TrimPrefix(e.URL, "http://")

	var busy sync.WaitGroup
	for i := range 4 {
		busy.Go(func() {
			for j := range 25 {
				r := h.route(e.URL)
				r.ID = fmt.Sprintf("o%d-%d.1", i, j)
				r.SandboxID = r.ID
				assert.NoError(t, h.client.Open(t.Context(), r))
				assert.NoError(t, h.client.Ready(t.Context(), "vllm@"+address))
				now, err := h.trainer.Upstream(t.Context(), address)
				assert.NoError(t, err)
				assert.Equal(t, 1, now.InFlight)
				assert.NoError(t, h.client.Close(t.Context(), r.ID))
			}
		})
	}

	busy.Wait()

	_, err := h.trainer.Drain(t.Context(), address, time.Minute, time.Millisecond, false)
	require.True(t, fault.Is(err, fault.Timeout), "%v", err)
	close(hang.release)
	require.Equal(t, goodReply, await(t, got).body)
	_, err = h.trainer.Drain(t.Context(), address, time.Minute, patience, false)
	require.NoError(t, err)
	require.NoError(t, h.client.Close(t.Context(), "r1.1"))
	_, err = h.trainer.Resume(t.Context(), address, "")
	require.NoError(t, err)

	upstreams, _ := h.server.Remembered()
	require.Zero(t, upstreams)
}
