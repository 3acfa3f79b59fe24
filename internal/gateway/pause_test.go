package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// A drain lets the call in progress end and holds the next one back. Resume releases it.
func TestDrainAndResume(t *testing.T) {
	t.Parallel()

	hang := newHanging(halfReply(), goodReply[len(halfReply()):])
	h, e := newHost(t), newEngine(t, hang.serve, says(goodReply))
	r := h.route(e.URL)
	r.Model.Endpoint = "vllm"
	url := h.open(t, r)
	first := startSend(t, url, "", streamed)
	await(t, hang.begun)

	_, err := h.trainer.Drain(t.Context(), "vllm", 10*time.Minute, 10*time.Millisecond, false)
	require.True(t, fault.Is(err, fault.Timeout), "a call is under way: %v", err)
	now, err := h.trainer.Upstream(t.Context(), "vllm")
	require.NoError(t, err)
	require.True(t, now.Paused, "and stays paused")
	require.Equal(t, 1, now.InFlight)

	second := startSend(t, url, "", streamed)
	require.Eventually(t, func() bool { return h.status(t, r.ID).InFlight == 2 }, patience, time.Millisecond)
	close(hang.release)
	require.Equal(t, goodReply, await(t, first).body)
	now, err = h.trainer.Drain(t.Context(), "vllm", 10*time.Minute, patience, false)
	require.NoError(t, err)
	require.Zero(t, now.InFlight)
	require.WithinDuration(t, time.Now().Add(10*time.Minute), now.Until, time.Minute)
	require.Len(t, e.requests(), 1, "the second is held back")

	now, err = h.trainer.Resume(t.Context(), "vllm", "")
	require.NoError(t, err)
	require.Equal(t, gatewayapi.UpstreamStatus{InFlight: now.InFlight}, now)
	require.Equal(t, goodReply, await(t, second).body)
	require.Len(t, h.turns(t, r.ID), 2)
}

// A pause ends by itself, does not affect other upstreams, and does not hold the calls of an ended rollout.
func TestPause(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	r, other := h.route(e.URL), h.route(e.URL)
	r.Model.Endpoint = "vllm"
	// this upstream is known by host and port
	other.ID, other.SandboxID = "r2.1", "r2.1"
	url, otherURL := h.open(t, r), h.open(t, other)

	_, err := h.trainer.Pause(t.Context(), "vllm", 200*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body, "once the pause is over")
	_, err = h.trainer.Pause(t.Context(), "vllm", 10*time.Minute)
	require.NoError(t, err)
	require.Equal(t, goodReply, send(t.Context(), otherURL, "", streamed).body)

	held := startSend(t, url, "", streamed)
	require.Eventually(t, func() bool { return h.status(t, r.ID).InFlight == 1 }, patience, time.Millisecond)
	require.NoError(t, h.client.End(t.Context(), r.ID, "by hand"))
	require.Contains(t, await(t, held).body, `"finish_reason":"stop"`)
	require.Equal(t, "aborted: by hand", h.turns(t, r.ID)[1].Broken)
	require.Len(t, e.requests(), 2)
}

// A rollout's own server under an endpoint's name is paused and drained with this name, even if it is added
// later. A pause of this server alone does not affect the others.
func TestServersUnderOneName(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	routes, engines, hangs := map[string]string{}, map[string]*engine{}, map[string]*hanging{}
	open := func(id string, own bool) string {
		hangs[id] = newHanging(halfReply(), goodReply[len(halfReply()):])
		engines[id] = newEngine(t, hangs[id].serve, says(goodReply))
		r := h.route(engines[id].URL)
		r.ID, r.SandboxID, r.Model.Endpoint, r.Model.Own = id+".1", id+".1", "vllm", own
		routes[id] = h.open(t, r)

		return r.Model.Upstream()
	}
	require.Equal(t, "vllm", open("a", false))
	own := open("b", true)
	require.Equal(t, "vllm@"+engines["b"].Listener.Addr().String(), own)
	replies := []<-chan reply{startSend(t, routes["a"], "", streamed), startSend(t, routes["b"], "", streamed)}
	await(t, hangs["a"].begun)
	await(t, hangs["b"].begun)

	close(hangs["a"].release)
	require.Equal(t, goodReply, await(t, replies[0]).body)
	_, err := h.trainer.Drain(t.Context(), "vllm", time.Hour, 10*time.Millisecond, false)
	require.True(t, fault.Is(err, fault.Timeout), "a call is under way at the server of its own: %v", err)
	close(hangs["b"].release)
	require.Equal(t, goodReply, await(t, replies[1]).body)
	now, err := h.trainer.Drain(t.Context(), "vllm", time.Hour, patience, false)
	require.NoError(t, err)
	require.True(t, now.Paused)

	late := open("c", true)
	require.ErrorContains(t, h.client.Ready(t.Context(), late), "it is paused")
	held := startSend(t, routes["c"], "", streamed)
	h.busy(t, "vllm", 0, 1)
	close(hangs["c"].release)

	_, err = h.trainer.Resume(t.Context(), "vllm", "")
	require.NoError(t, err)
	require.Equal(t, goodReply, await(t, held).body)

	_, err = h.trainer.Pause(t.Context(), own, time.Hour)
	require.NoError(t, err)
	require.Error(t, h.client.Ready(t.Context(), own))
	require.NoError(t, h.client.Ready(t.Context(), "vllm"))
	now, err = h.trainer.Upstream(t.Context(), "vllm")
	require.NoError(t, err)
	require.False(t, now.Paused, "not all of it is")

	address := engines["c"].Listener.Addr().String()
	_, err = h.trainer.Pause(t.Context(), address, time.Hour)
	require.NoError(t, err)
	require.Error(t, h.client.Ready(t.Context(), late), "its address is another name of it")
	require.Error(t, h.client.Ready(t.Context(), "openai@"+address), "of one that comes later, too")
	require.NoError(t, h.client.Ready(t.Context(), "vllm"))
}

// A drain with a short timeout ends the calls in progress. They are repeated after the pause, and the
// callers do not notice.
func TestDrainThatEndsCalls(t *testing.T) {
	t.Parallel()

	hang := newHanging(halfReply(), "")
	h, e := newHost(t), newEngine(t, hang.serve, says(goodReply))
	r := h.route(e.URL)
	r.Model.Endpoint = "vllm"
	got := startSend(t, h.open(t, r), "", streamed)
	await(t, hang.begun)
	now, err := h.trainer.Drain(t.Context(), "vllm", time.Hour, time.Millisecond, true)
	require.NoError(t, err)
	require.Zero(t, now.InFlight)
	require.True(t, now.Paused)
	await(t, hang.gone)
	h.queued(t, "vllm", 1)
	require.Len(t, e.requests(), 1)
	_, err = h.trainer.Resume(t.Context(), "vllm", "")
	require.NoError(t, err)
	require.Equal(t, goodReply, await(t, got).body)
	turns := h.turns(t, r.ID)
	require.Len(t, turns, 1)
	require.Equal(t, 2, turns[0].UpstreamTries)
	require.Empty(t, turns[0].Broken)
	require.Equal(t, []int32{10, 11}, turns[0].CompletionTokenIDs)
}

// A drain fails if its pause ends before the last call, because other calls have begun since.
func TestDrainThatOutlastsItsPause(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(halfReply(), goodReply[len(halfReply()):])
	r := h.route(newEngine(t, hang.serve).URL)
	r.Model.Endpoint = "vllm"
	got := startSend(t, h.open(t, r), "", streamed)
	await(t, hang.begun)

	drained := make(chan error, 1)

	go func() {
		_, err := h.trainer.Drain(t.Context(), "vllm", 3*time.Second, patience, false)
		drained <- err
	}()

	h.upstream(t, "vllm", func(now gatewayapi.UpstreamStatus) bool { return now.Paused })
	h.upstream(t, "vllm", func(now gatewayapi.UpstreamStatus) bool { return !now.Paused })
	close(hang.release)
	require.Equal(t, goodReply, await(t, got).body)
	err := await(t, drained)
	require.True(t, fault.Is(err, fault.Timeout), "%v", err)
}

func TestPauseRefusesInvalidRequests(t *testing.T) {
	t.Parallel()

	h := newHost(t)
	for _, d := range [][2]time.Duration{{0, 0}, {-1, 0}, {25 * time.Hour, 0}, {time.Second, -time.Second}} {
		_, err := h.trainer.Drain(t.Context(), "vllm", d[0], d[1], false)
		require.True(t, fault.Is(err, fault.Invalid), "%v: %v", d, err)
	}

	now, err := h.trainer.Upstream(t.Context(), "vllm")
	require.NoError(t, err)
	require.False(t, now.Paused)
}

// A trainer that misspells the endpoint's name must get an error, not the status of an idle endpoint.
func TestPauseRefusesAnUnknownEndpoint(t *testing.T) {
	t.Parallel()

	h := newHost(t, func(o *gateway.Options) { o.Endpoints = []string{"vllm", "openai"} })
	for _, name := range []string{"vllm", "10.0.0.1:8000", "gpu.lan"} {
		_, err := h.trainer.Pause(t.Context(), name, time.Hour)
		require.NoError(t, err, name)
	}

	misspelled := func() error {
		_, err := h.trainer.Upstream(t.Context(), "vlmm")
		_, errPause := h.trainer.Pause(t.Context(), "vlmm", time.Hour)
		_, errResume := h.trainer.Resume(t.Context(), "vlmm", "")
		require.Equal(t, err == nil, errPause == nil && errResume == nil)

		return err
	}
	require.ErrorContains(t, misspelled(), "must be vllm, openai, or host:port")
	require.NoError(t, h.client.Ready(t.Context(), "vlmm"))
	require.NoError(t, misspelled(), "rollouts ask for it, so there is a host of that name")
}

// vLLM names the weights of each span of tokens, since the gateway asks for them; the agent, which did not, has none of it.
func TestVersionsOfSpans(t *testing.T) {
	t.Parallel()

	const spans = `"weight_versions":[{"version":"1","start":0,"end":1},{"version":"2","start":1,"end":2}],`

	h, e := newHost(t), newEngine(t, says(strings.Replace(goodReply, `"stop_reason":null`, spans+`"stop_reason":null`, 1)))
	got := send(t.Context(), h.open(t, h.route(e.URL)), "", unary)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.NotContains(t, got.body, "weight_versions")
	require.Contains(t, e.requests()[0].body, `"return_weight_versions":true`)

	turn := h.turns(t, "r1.1")[0]
	require.Equal(t, "1..2", turn.ModelVersion)
	require.Equal(t, []rollout.VersionSpan{{Version: "1", Stop: 1}, {Version: "2", Start: 1, Stop: 2}}, turn.WeightVersions)
}

// A trainer names the weights when it resumes. Each turn has the name of its weights: the new name after a
// resume, both names if the call was in progress, and the same name after a restart. A version in the
// engine's reply takes precedence.
func TestWeightsThatATrainerNames(t *testing.T) {
	t.Parallel()

	named := strings.Replace(goodReply, `"choices"`, `"weight_version":"engine-1","choices"`, 1)
	unlabelled := strings.Replace(goodReply, `"choices"`, `"weight_version":"default","choices"`, 1)
	slow := newHanging(halfReply(), goodReply[len(halfReply()):])
	h, e := newHost(t), newEngine(
		t,
		says(goodReply),
		says(goodReply),
		slow.serve,
		says(named),
		says(unlabelled),
		says(goodReply),
	)
	r := h.route(e.URL)
	r.Model.Endpoint = "vllm"
	url := h.open(t, r)
	resume := func(version string) {
		now, err := h.trainer.Resume(t.Context(), "vllm", version)
		require.NoError(t, err)
		require.NotEmpty(t, now.Version)
	}

	send(t.Context(), url, "", streamed)
	resume("step-1")
	send(t.Context(), url, "", streamed)
	under := startSend(t, url, "", streamed)
	await(t, slow.begun)
	resume("step-2")
	resume("")
	close(slow.release)
	await(t, under)
	send(t.Context(), url, "", streamed)
	send(t.Context(), url, "", streamed)
	h.stop()
	h.start(t)
	send(t.Context(), h.channels.url(t, r.SandboxID), "", streamed)

	var versions []string

	for _, turn := range h.turns(t, r.ID) {
		require.Empty(t, turn.Broken)
		versions = append(versions, turn.ModelVersion)
	}

	require.Equal(t, []string{"", "step-1", "step-1..step-2", "engine-1", "step-2", "step-2"}, versions)

	_, err := h.trainer.Resume(t.Context(), "vllm", "a..b")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = h.trainer.Resume(t.Context(), "vllm", strings.Repeat("x", 129))
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// If unnamed weights get a name during a call, the name does not apply to the whole call.
func TestWeightsNamedDuringACall(t *testing.T) {
	t.Parallel()

	slow := newHanging(halfReply(), goodReply[len(halfReply()):])
	h, e := newHost(t), newEngine(t, slow.serve)
	r := h.route(e.URL)
	under := startSend(t, h.open(t, r), "", streamed)
	await(t, slow.begun)
	_, err := h.trainer.Resume(t.Context(), e.Listener.Addr().String(), "step-1")
	require.NoError(t, err)
	close(slow.release)
	await(t, under)
	require.Equal(t, "unknown..step-1", h.turns(t, r.ID)[0].ModelVersion)
}

// The status shows a pause while one of the agent's own calls waits for it: a call from before the pause,
// during it, or ended by a drain.
func TestStatusShowsAPause(t *testing.T) {
	t.Parallel()

	paused := func(s gatewayapi.RouteStatus) bool { return strings.HasPrefix(s.Trouble, "it is paused, until ") }
	well := func(s gatewayapi.RouteStatus) bool { return s.Trouble == "" }
	hang := newHanging(halfReply(), goodReply[len(halfReply()):])
	h := newHost(t, bounded(limits.Bounds{Calls: 1}))
	r := h.route(newEngine(t, hang.serve).URL)
	r.Model.Endpoint = "vllm"
	url := h.open(t, r)
	changes := watch(t, h.client, r.ID, 0)
	pause := func(d time.Duration) {
		_, err := h.trainer.Pause(t.Context(), "vllm", d)
		require.NoError(t, err)
	}
	resume := func() {
		_, err := h.trainer.Resume(t.Context(), "vllm", "")
		require.NoError(t, err)
	}
	calls := []<-chan reply{startSend(t, url, "", streamed)}
	await(t, hang.begun)
	pause(time.Hour)
	require.True(t, well(h.status(t, r.ID)), "the endpoint works on the only call")
	calls = append(calls, startSend(t, url, "", streamed))
	statusOf(t, changes, paused)
	resume()
	statusOf(t, changes, well)
	pause(time.Hour)
	// the second call was in the queue before the pause
	statusOf(t, changes, paused)
	resume()
	statusOf(t, changes, well)
	_, err := h.trainer.Drain(t.Context(), "vllm", time.Hour, time.Millisecond, true)
	require.NoError(t, err)
	statusOf(t, changes, paused)
	pause(time.Millisecond)
	// the pause ends by itself
	statusOf(t, changes, well)
	close(hang.release)

	for _, call := range calls {
		require.Equal(t, 200, await(t, call).status)
	}
}

// A paused endpoint is neither probed nor asked to tokenise a prompt, because its answers mean nothing
// while its weights are replaced. The time of the pause is not charged to the endpoint.
func TestPausedEndpointGetsNoOtherRequests(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, answers(404, `{"message":"loading"}`))
	r := h.route(e.URL)
	r.Model.Endpoint, r.Limits.Call = "vllm", time.Nanosecond
	m := h.onHost(t, r)
	_, err := h.trainer.Pause(t.Context(), "vllm", time.Hour)
	require.NoError(t, err)

	for range 2 {
		err = m.Probe(t.Context())
		require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
		_, err = m.Tokenize(t.Context(), nil)
		require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	}

	require.Empty(t, e.requests())
	s := h.status(t, r.ID)
	require.Nil(t, s.Failure)
	require.Contains(t, s.Trouble, "it is paused")
	_, err = h.trainer.Resume(t.Context(), "vllm", "")
	require.NoError(t, err)
	require.Error(t, m.Probe(t.Context()))
	require.NotEmpty(t, e.requests())
}

// A refusal during a pause is not final: the call is repeated after the pause. Otherwise a key or a model
// that is not loaded yet would end the attempt, and a 403 would count as a failure of the agent.
func TestARefusalInAPauseIsNotFinal(t *testing.T) {
	t.Parallel()

	for _, status := range []int{400, 401, 403, 404} {
		asked, refuse := make(chan struct{}, 1), make(chan struct{})
		h, e := newHost(t), newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}

			select {
			case <-refuse:
				answers(status, `{"message":"loading"}`)(w, r)
			case <-r.Context().Done(): // reached only if the test has failed
			}
		}, says(goodReply))
		pause, resume := h.pauses(t)
		r := h.route(e.URL)
		r.Model.Endpoint = "vllm"
		url := h.open(t, r)
		got := startSend(t, url, "", streamed)
		await(t, asked)
		pause()
		close(refuse)
		h.waitUntilHeld(t, 300*time.Millisecond)
		require.Nil(t, h.status(t, r.ID).Failure)
		require.Len(t, e.requests(), 1)
		resume()
		require.Equal(t, goodReply, await(t, got).body)
	}
}

// An endpoint is inspected after its pause, and again if a pause begins during the inspection. Replies from
// a pause are not evaluated.
func TestAPausedEndpointIsNotInspected(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), scriptedEngine(t, scripted.Options{})
	serve, hung := e.steps[0], newHanging("", "")
	e.steps = []http.HandlerFunc{hung.serve, hung.serve, hung.serve, serve}
	r := h.route(e.URL)
	r.Model.Endpoint = "vllm"
	h.open(t, r)

	drain := func() {
		_, err := h.trainer.Drain(t.Context(), "vllm", time.Hour, time.Millisecond, true)
		require.NoError(t, err)
	}
	resume := func() {
		_, err := h.trainer.Resume(t.Context(), "vllm", "")
		require.NoError(t, err)
	}

	drain()

	report, err := h.client.Inspect(t.Context(), r.ID, 10*time.Millisecond)
	require.NoError(t, err)
	require.Zero(t, report)
	require.Empty(t, e.requests())
	resume()

	for range 3 {
		await(t, hung.begun)
	}

	drain()

	for range 3 {
		await(t, hung.gone)
	}

	resume()
	require.Eventually(t, func() bool {
		report, err = h.client.Inspect(t.Context(), r.ID, time.Second)
		return err == nil && report.CaptureLevel != ""
	}, patience, pollStep)
	require.Equal(t, rollout.CaptureTokens, report.CaptureLevel, report.Findings)
	require.Equal(t, rollout.LogprobsProcessed, report.LogprobsMode, report.Findings)
	require.True(t, *report.ToolSupport, report.Findings)
}

// If a reply lacks its prompt's ids, the gateway requests them only after a pause, and again if a pause
// begins during the request. The pause is not charged to the agent's time.
func TestIDsOfAPromptWaitForTheEndOfAPause(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging("", strings.Replace(goodReply, `,"prompt_token_ids":[1,2,3]`, "", 1))
	pause, resume := h.pauses(t)
	questions, ids := make(chan struct{}, 16), make(chan http.HandlerFunc, 2)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tokenize" {
			hang.serve(w, r)
			return
		}

		questions <- struct{}{}

		select {
		case answer := <-ids:
			answer(w, r)
		case <-r.Context().Done(): // reached only if the test has failed
		}
	})
	r := h.route(e.URL)
	r.Model.Endpoint = "vllm"
	url := h.open(t, r)
	got := startSend(t, url, "", streamed)
	await(t, hang.begun)
	pause()
	close(hang.release)
	h.waitUntilHeld(t, 300*time.Millisecond)
	require.Equal(t, 200, sizeOf(t, url).status)
	require.Empty(t, questions)

	resume()
	await(t, questions)
	pause()

	ids <- answers(404, "{}")

	h.waitUntilHeld(t, h.status(t, r.ID).Held+300*time.Millisecond)
	require.Empty(t, questions)
	resume()
	await(t, questions)

	ids <- answers(200, `{"tokens":[4,5,6]}`)

	require.Contains(t, await(t, got).body, "[DONE]")
	turn := h.turns(t, r.ID)[0]
	require.Equal(t, []int32{4, 5, 6}, turn.PromptTokenIDs)
	require.Empty(t, turn.Flaws)
	require.GreaterOrEqual(t, h.status(t, r.ID).Held, 600*time.Millisecond)
}

// sizeOf requests the number of tokens of a prompt.
func sizeOf(t *testing.T, url string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodPost,
		url+"/v1/messages/count_tokens",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`),
	)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer res.Body.Close()

	return reply{status: res.StatusCode}
}

// pauses returns functions that pause and resume the endpoint "vllm".
func (h *host) pauses(t *testing.T) (pause, resume func()) {
	pause = func() {
		_, err := h.trainer.Pause(t.Context(), "vllm", time.Hour)
		require.NoError(t, err)
	}
	resume = func() {
		_, err := h.trainer.Resume(t.Context(), "vllm", "")
		require.NoError(t, err)
	}

	return pause, resume
}
