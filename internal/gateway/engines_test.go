package gateway_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// Each rollout stays with one of several engines, even after a restart, and rollouts are spread over the engines.
func TestARolloutStaysWithItsEngine(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	engines := []*engine{newEngine(t, says(goodReply)), newEngine(t, says(goodReply)), newEngine(t, says(goodReply))}

	var ids []string

	for i := range 24 {
		r := h.route(engines[0].URL)
		r.ID, r.RolloutID, r.SandboxID = fmt.Sprintf("r%d.1", i), fmt.Sprintf("r%d", i), fmt.Sprintf("r%d.1", i)
		// in any order
		r.Model.BaseURL = fmt.Sprintf("%s/v1,%s/v1,%s/v1", engines[0].URL, engines[i%2+1].URL, engines[2-i%2].URL)
		h.open(t, r)
		ids = append(ids, r.SandboxID)
	}

	served := func(id string) int {
		before := counts(engines)

		require.Equal(t, http.StatusOK, send(t.Context(), h.channels.url(t, id), "", streamed).status)

		for i, n := range counts(engines) {
			if n > before[i] {
				return i
			}
		}

		require.FailNow(t, "no engine was asked")

		return -1
	}

	first := map[string]int{}
	for _, id := range ids {
		first[id] = served(id)
		require.Equal(t, first[id], served(id))
	}

	for _, n := range counts(engines) {
		require.NotZero(t, n)
	}

	h.stop()
	h.start(t)

	for _, id := range ids[:4] {
		require.Equal(t, first[id], served(id))
	}
}

func counts(engines []*engine) []int {
	n := make([]int, len(engines))
	for i, e := range engines {
		n[i] = len(e.requests())
	}

	return n
}

// If a rollout's engine is lost, the rollout moves to another one, and the agent does not notice. The lost
// engine keeps its port, because a free port might be assigned to the next listener.
func TestLostEngineIsReplaced(t *testing.T) {
	t.Parallel()
	h := newHost(t)

	var lost atomic.Pointer[engine]

	engines := make([]*engine, 2)
	for i := range engines {
		engines[i] = newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			if lost.Load() == engines[i] {
				panic(http.ErrAbortHandler)
			}

			says(goodReply)(w, r)
		})
	}

	r := h.route(engines[0].URL)
	r.Model.BaseURL = engines[0].URL + "/v1," + engines[1].URL + "/v1"
	url := h.open(t, r)
	require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body)

	own, other := engines[0], engines[1]
	if len(own.requests()) == 0 {
		own, other = other, own
	}

	lost.Store(own)

	for range 2 {
		require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body)
	}

	require.Equal(
		t,
		[]int{3, 2},
		counts([]*engine{own, other}),
		"the lost one is asked once, over the connection at rest and over another",
	)
	turns := h.turns(t, r.ID)
	require.Equal(
		t,
		[]string{own.URL + "/v1", other.URL + "/v1", other.URL + "/v1"},
		[]string{turns[0].Engine, turns[1].Engine, turns[2].Engine},
	)
	require.Equal(t, []int{1, 2, 1}, []int{turns[0].UpstreamTries, turns[1].UpstreamTries, turns[2].UpstreamTries})
}

// If the next engine fails once while the first is lost, calls alternate between both engines and do not
// stay with the first.
func TestAllEnginesAreLost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	// only the fourth request is answered, by either engine
	var asked atomic.Int32

	step := func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 4 {
			panic(http.ErrAbortHandler)
		}

		says(goodReply)(w, r)
	}
	engines := []*engine{newEngine(t, step), newEngine(t, step)}
	r := h.route(engines[0].URL)
	r.Model.BaseURL = engines[0].URL + "/v1," + engines[1].URL + "/v1"
	require.Equal(t, goodReply, send(t.Context(), h.open(t, r), "", streamed).body)
	require.Equal(t, []int{2, 2}, counts(engines))
}

// A turn names its engine without the credentials in the address. With a single engine, it names none.
func TestATurnNamesItsEngine(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	bad := newEngine(t, answers(404, `{"error":{"message":"no such model"}}`))
	secret := strings.Replace(bad.URL, "://", "://user:"+canary+"@", 1)
	several, one := h.route(bad.URL), h.route(bad.URL)
	several.Model.BaseURL = secret + "/a/v1," + secret + "/b/v1"

	one.ID, one.SandboxID = "r2.1", "r2.1"
	for _, r := range []gatewayapi.Route{several, one} {
		require.Equal(t, http.StatusBadRequest, send(t.Context(), h.open(t, r), "", unary).status)
	}

	turn := h.turns(t, several.ID)[0]
	require.NotEmpty(t, turn.Broken)
	require.Contains(t, []string{bad.URL + "/a/v1", bad.URL + "/b/v1"}, turn.Engine)
	require.Empty(t, h.turns(t, one.ID)[0].Engine)
}

// User name and password in the endpoint's address are sent as HTTP Basic credentials unless there is a
// key. Redirects are not followed.
func TestAddressWithAName(t *testing.T) {
	t.Parallel()
	h := newHost(t)

	elsewhere := newEngine(t, says(goodReply))
	for i, c := range []struct{ key, want string }{
		{"", "Basic " + base64.StdEncoding.EncodeToString([]byte("user:pass"))},
		{canary, "Bearer " + canary},
	} {
		e := newEngine(t, answers(http.StatusTemporaryRedirect, "", "Location", elsewhere.URL))
		r := h.route(strings.Replace(e.URL, "://", "://user:pass@", 1))
		r.ID = fmt.Sprintf("r%d.1", i)
		r.SandboxID = r.ID
		r.Model.SealedKey = h.key.Box("model key").SealString(c.key)
		require.Equal(t, http.StatusBadRequest, send(t.Context(), h.open(t, r), "", unary).status)
		require.Equal(t, c.want, e.requests()[0].header.Get("Authorization"))
	}

	require.Empty(t, elsewhere.requests())
}
