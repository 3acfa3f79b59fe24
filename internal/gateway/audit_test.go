package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// weighted is an engine whose log probabilities depend on its weights. Its prefix cache keeps, for each salt, the
// weights that computed it; what it scores again it computes anew.
type weighted struct {
	mu      sync.Mutex
	weights int
	cache   map[string]int

	// header of replies; "": none
	names string
	// decoding computes in another order than scoring, in nats
	noise float64
	calls int
	// SGLang and not vLLM
	sglang bool
}

func (e *weighted) logprob(id int32, weights int) float64 {
	return -0.1 - float64((int(id)*7+weights*13)%10)/10
}

func (e *weighted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()

	var in struct {
		Salt   string  `json:"cache_salt"`
		Prompt []int32 `json:"prompt"`
		Input  []int32 `json:"input_ids"`
		From   int     `json:"logprob_start_len"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}

	switch path := r.URL.Path; {
	case path == "/generate" && e.sglang:
		scored := []any{[]any{nil, in.Input[in.From], nil}}
		for _, id := range in.Input[in.From+1:] {
			scored = append(scored, []any{e.logprob(id, e.weights), id, nil})
		}

		writeTo(w, map[string]any{"text": "", "meta_info": map[string]any{"input_token_logprobs": scored}})
	case path == "/v1/completions" && !e.sglang:
		scored := []any{nil}
		for _, id := range in.Prompt[1:] {
			scored = append(scored, map[string]any{
				strconv.Itoa(int(id)): map[string]any{"logprob": e.logprob(id, e.weights), "rank": 1},
			})
		}

		writeTo(w, map[string]any{"choices": []any{map[string]any{"text": "", "prompt_logprobs": scored}}})
	case strings.HasSuffix(path, "/chat/completions"):
		e.chat(w, in.Salt)
	default:
		http.NotFound(w, r)
	}
}

func (e *weighted) chat(w http.ResponseWriter, salt string) {
	if _, cached := e.cache[salt]; !cached {
		e.cache[salt] = e.weights
	}

	e.calls++
	ids, logprobs := []int32{}, []any{}

	for i := range 8 {
		id := int32(e.calls*10 + i)
		ids = append(ids, id)
		logprobs = append(logprobs, map[string]any{
			"token": "x", "logprob": e.logprob(id, e.cache[salt]) + e.noise*float64(i%3-1), "top_logprobs": []any{},
		})
	}

	w.Header().Set("X-Weight-Version", e.names)
	writeTo(w, map[string]any{
		"id": "c", "object": "chat.completion", "created": 1, "model": "m", "prompt_token_ids": []int32{1, 2, 3},
		"choices": []any{map[string]any{
			"index": 0, "message": map[string]any{"role": "assistant", "content": "hi"}, "finish_reason": "stop",
			"token_ids": ids, "logprobs": map[string]any{"content": logprobs},
		}},
		"usage": map[string]int{"prompt_tokens": 3, "completion_tokens": len(ids)},
	})
}

// load replaces the weights, under a name of the engine.
func (e *weighted) load(weights int, names string) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.weights, e.names = weights, names
}

// audited is a rollout on a weighted engine.
type audited struct {
	*host
	engine *weighted
	route  gatewayapi.Route
	url    string
}

func newAudited(t *testing.T, salt gateway.CacheSalt, e *weighted) *audited {
	t.Helper()

	e.cache = map[string]int{}
	a := &audited{host: newHost(t, withSalt(salt)), engine: e}
	a.route = a.host.route(newEngine(t, e.ServeHTTP).URL)
	a.route.Model.Sampling = (&rollout.Sampling{Temperature: ptr(1.0)}).ForTraining()
	a.url = a.open(t, a.route)

	return a
}

func (a *audited) name(t *testing.T, version string) {
	t.Helper()

	_, err := a.trainer.Resume(t.Context(), a.route.Model.Upstream(), version)
	require.NoError(t, err)
}

func (a *audited) calls(t *testing.T, n int) {
	t.Helper()

	for i := range n {
		body := strings.Replace(unary, `"hi"`, fmt.Sprintf(`"hi %d"`, i), 1)
		require.Equal(t, http.StatusOK, send(t.Context(), a.url, "", body).status)
	}
}

func (a *audited) audit(t *testing.T, in gatewayapi.AuditRequest) gatewayapi.AuditReport {
	t.Helper()

	report, err := a.trainer.Audit(t.Context(), a.route.Model.Upstream(), in)
	require.NoError(t, err)

	return report
}

// An engine whose cache outlives its weights is found, and not where calls have salts.
func TestAuditFindsAStaleCache(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		salt   gateway.CacheSalt
		sglang bool
		marked int
	}{{gateway.SaltOff, false, 31}, {gateway.SaltOff, true, 31}, {gateway.SaltTurn, false, 0}, {gateway.SaltTurn, true, 0}} {
		a := newAudited(t, tc.salt, &weighted{weights: 1, sglang: tc.sglang})
		a.name(t, "step-1")
		a.calls(t, 1)
		a.engine.load(2, "")
		a.name(t, "step-2")
		a.calls(t, 31)

		report := a.audit(t, gatewayapi.AuditRequest{Drop: true})
		require.Len(t, report.Marked, tc.marked)
		require.Equal(t, 31, report.Turns)
		require.Equal(t, map[string]int{"older weights": 1}, report.Skipped)
		require.Len(t, report.Versions, 1)
		require.Equal(t, "step-2", report.Versions[0].Version)
		require.Equal(t, 31*8, report.Versions[0].Tokens)
		require.Equal(t, tc.marked > 0, report.Versions[0].K3 > 0.01)

		for _, turn := range a.turns(t, a.route.ID)[1:] {
			require.Equal(t, tc.marked == 0, turn.Train)
			require.Equal(t, tc.marked > 0, strings.Contains(strings.Join(turn.Flaws, " "), `do not fit the weights "step-2"`))
		}
	}
}

// The background audit finds it by itself, in the share of the turns that is configured.
func TestAuditInTheBackground(t *testing.T) {
	t.Parallel()

	e := &weighted{weights: 1, cache: map[string]int{}}
	a := &audited{engine: e, host: newHost(t, withSalt(gateway.SaltOff), func(o *gateway.Options) {
		o.Audit, o.AuditDrop = func(string) float64 { return 1 }, true
	})}
	a.route = a.host.route(newEngine(t, e.ServeHTTP).URL)
	a.url = a.open(t, a.route)
	a.name(t, "step-1")

	for marked := range 2 {
		a.calls(t, 1)
		// the next weights are loaded while nothing is scored
		require.Eventually(t, func() bool {
			report, err := a.trainer.LatestAudit(t.Context(), a.route.Model.Upstream())
			return err == nil && report.Turns == marked+1 && len(report.Marked) == marked
		}, patience, pollStep)
		a.engine.load(2, "")
		a.name(t, "step-2")
	}

	turn := a.turns(t, a.route.ID)[1]
	require.Len(t, turn.Flaws, 1)
	require.False(t, turn.Train)
}

// An engine that names weights before it has them is found once it has them.
func TestAuditFindsAWrongVersion(t *testing.T) {
	t.Parallel()
	a := newAudited(t, gateway.SaltTurn, &weighted{weights: 1, names: "2"})
	a.calls(t, 4)
	a.engine.load(2, "2")

	report := a.audit(t, gatewayapi.AuditRequest{})
	require.Len(t, report.Marked, 4)
	require.Equal(t, "2", report.Marked[0].Version)

	for _, turn := range a.turns(t, a.route.ID) {
		require.True(t, turn.Train, "it is dropped on request")
		require.Len(t, turn.Flaws, 1)
	}
}

// A healthy endpoint computes the same in another order.
func TestAuditOfAHealthyEndpoint(t *testing.T) {
	t.Parallel()
	a := newAudited(t, gateway.SaltTurn, &weighted{weights: 1, noise: 0.03})
	a.name(t, "step-1")
	a.calls(t, 40)

	_, err := a.trainer.LatestAudit(t.Context(), a.route.Model.Upstream())
	require.ErrorContains(t, err, "no audit")

	report := a.audit(t, gatewayapi.AuditRequest{})
	require.Equal(t, 32, report.Turns)
	require.Empty(t, report.Marked)
	require.InDelta(t, 0.02, report.Versions[0].MeanAbs, 0.01)

	latest, err := a.trainer.LatestAudit(t.Context(), a.route.Model.Upstream())
	require.NoError(t, err)
	require.Equal(t, report, latest)

	status, err := a.trainer.Upstream(t.Context(), a.route.Model.Upstream())
	require.NoError(t, err)
	require.Equal(t, &report, status.Audit)
}

// What cannot be compared is skipped with a reason.
func TestAuditSkips(t *testing.T) {
	t.Parallel()

	a := newAudited(t, gateway.SaltTurn, &weighted{weights: 1})
	a.calls(t, 2)
	require.Equal(t, map[string]int{"too many tokens": 2}, a.audit(t, gatewayapi.AuditRequest{Tokens: 10}).Skipped)

	_, err := a.trainer.Pause(t.Context(), a.route.Model.Upstream(), patience)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"paused": 2}, a.audit(t, gatewayapi.AuditRequest{}).Skipped)

	a.name(t, "")
	require.Equal(t, map[string]int{"older weights": 2}, a.audit(t, gatewayapi.AuditRequest{}).Skipped, "the weights have no name")

	_, err = a.trainer.Audit(t.Context(), a.route.Model.Upstream(), gatewayapi.AuditRequest{Turns: -1})
	require.ErrorContains(t, err, "turns: must be from 1 to 1024")
}
