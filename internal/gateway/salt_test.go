package gateway_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// saltOf returns the cache salt of a request.
func saltOf(t *testing.T, body string) string {
	t.Helper()

	var in struct {
		Salt string `json:"cache_salt"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &in))

	return in.Salt
}

func (e *engine) salts(t *testing.T) []string {
	t.Helper()

	var all []string
	for _, s := range e.requests() {
		all = append(all, saltOf(t, s.body))
	}

	return all
}

func withSalt(when gateway.CacheSalt) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.CacheSalt = func(string) gateway.CacheSalt { return when }
	}
}

// Calls after the weights were named anew have another salt of the engine's cache, and the turn has it.
func TestCacheSaltFollowsTheWeights(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		when  gateway.CacheSalt
		other bool
	}{{gateway.SaltTurn, true}, {gateway.SaltRollout, false}} {
		t.Run(string(tc.when), func(t *testing.T) {
			t.Parallel()
			h := newHost(t, withSalt(tc.when))
			e := newEngine(t, says(goodReply))
			r := h.route(e.URL)
			url := h.open(t, r)

			for _, version := range []string{"", "a@b/step-1", "a@b/step-1", "step-2"} {
				_, err := h.trainer.Resume(t.Context(), r.Model.Upstream(), version)
				require.NoError(t, err)
				require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body)
			}

			salts := e.salts(t)
			require.Empty(t, salts[0], "no version is known")
			require.Regexp(t, `^[\w-]{20,128}$`, salts[1], "vLLM takes no other")
			require.Equal(t, salts[1], salts[2])
			require.Equal(t, tc.other, salts[3] != salts[2])

			for i, turn := range h.turns(t, r.ID) {
				require.Equal(t, salts[i], saltOf(t, string(turn.Request)))
			}
		})
	}
}

func TestCacheSaltIsOff(t *testing.T) {
	t.Parallel()
	h := newHost(t, withSalt(gateway.SaltOff))
	e := newEngine(t, says(goodReply))
	r := h.route(e.URL)
	url := h.open(t, r)
	_, err := h.trainer.Resume(t.Context(), r.Model.Upstream(), "step-1")
	require.NoError(t, err)
	require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body)
	require.Equal(t, []string{""}, e.salts(t))
}

// A call that is repeated meets the weights of its repetition.
func TestCacheSaltOfARetry(t *testing.T) {
	t.Parallel()
	h := newHost(t)

	var name func(version string)

	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		name("step-2")
		answers(http.StatusServiceUnavailable, "{}")(w, r)
	}, says(goodReply))
	r := h.route(e.URL)
	url := h.open(t, r)
	name = func(version string) {
		_, err := h.trainer.Resume(t.Context(), r.Model.Upstream(), version)
		require.NoError(t, err)
	}

	name("step-1")
	require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body)

	salts := e.salts(t)
	require.Len(t, salts, 2)
	require.NotEqual(t, salts[0], salts[1])
	require.Equal(t, salts[1], saltOf(t, string(h.turns(t, r.ID)[0].Request)))
}

// An engine that names its weights gives the salt from its next reply on. A call that a crash of the gateway interrupts
// is repeated with the same one.
func TestCacheSaltOutlivesTheGateway(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	hang := newHanging("", goodReply)

	t.Cleanup(func() { close(hang.release) })

	named := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Weight-Version", "7")
		says(goodReply)(w, r)
	}
	e := newEngine(t, named, hang.serve, named)
	r := h.route(e.URL)
	url := h.open(t, r)
	require.Equal(t, goodReply, send(t.Context(), url, "one", streamed).body)

	interrupted := startSend(t, url, "two", streamed)

	await(t, hang.begun)
	h.stop()
	<-interrupted
	h.start(t)
	require.Equal(t, goodReply, send(t.Context(), h.channels.url(t, r.SandboxID), "two", streamed).body)

	salts := e.salts(t)
	require.Empty(t, salts[0])
	require.NotEmpty(t, salts[1])
	require.Equal(t, salts[1], salts[2])
}

func TestCacheSaltOfAnAgent(t *testing.T) {
	t.Parallel()

	for _, own := range []string{`"cache_salt":"mine"`, `"extra_key":"mine"`} {
		h := newHost(t)
		e := newEngine(t, says(goodReply))
		r := h.route(e.URL)
		url := h.open(t, r)
		_, err := h.trainer.Resume(t.Context(), r.Model.Upstream(), "step-1")
		require.NoError(t, err)

		body := strings.Replace(streamed, "{", "{"+own+",", 1)
		require.Equal(t, goodReply, send(t.Context(), url, "", body).body)

		sent := e.requests()[0].body
		require.Contains(t, sent, own)
		require.Equal(t, 1, strings.Count(sent, "cache_salt")+strings.Count(sent, "extra_key"))
	}
}

// An endpoint that knows no salts works without, and is not asked again.
func TestCacheSaltIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := newEngine(t,
		answers(http.StatusBadRequest, `{"error":{"message":"Unrecognized request argument supplied: cache_salt"}}`),
		says(goodReply),
	)
	r := h.route(e.URL)
	url := h.open(t, r)
	_, err := h.trainer.Resume(t.Context(), r.Model.Upstream(), "step-1")
	require.NoError(t, err)

	for range 2 {
		require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body)
	}

	salts := e.salts(t)
	require.Equal(t, 1, len(slices.DeleteFunc(salts, func(s string) bool { return s == "" })))

	for _, turn := range h.turns(t, r.ID) {
		require.Equal(t, []string{"dropped cache_salt"}, turn.ParamFixes)
		require.Empty(t, saltOf(t, string(turn.Request)))
		require.Equal(t, 1, turn.UpstreamTries)
	}
}
