package gateway_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// masker is an SGLang that says which tokens its sampler could choose from: they depend on all tokens so far, so that a row
// in a wrong place is another one.
type masker struct {
	on bool

	// the calls that get no mask, from 0
	silent []int
	calls  int
}

// masking is what a call asks of a masker.
type masking struct {
	Mask bool     `json:"return_sampling_mask"`
	Meta bool     `json:"return_meta_info"`
	TopK int      `json:"top_k"`
	TopP *float64 `json:"top_p"`
}

// row returns the tokens that were left for the last token: itself and up to three others.
func (m *masker) row(ids []int32) []int32 {
	hash := fnv.New32a()
	_ = binary.Write(hash, binary.LittleEndian, ids)
	row := []int32{ids[len(ids)-1]}

	for n := range hash.Sum32() % 4 {
		row = append(row, int32(100_000+hash.Sum32()%1000+n))
	}

	return row
}

// logprob is the log probability of the last token among those of its row.
func (m *masker) logprob(ids []int32) float64 { return -0.25 * float64(len(m.row(ids))) }

func (m *masker) answer(choice map[string]any, in masking, prompt, ids []int32) {
	m.calls++

	if !m.on || !in.Mask || !in.Meta || slices.Contains(m.silent, m.calls-1) {
		return
	}

	choice["meta_info"] = m.report(prompt, ids)
}

func (m *masker) report(prompt, ids []int32) map[string]any {
	rows, logprobs := [][]int32{}, []float64{}

	for n := range ids {
		all := slices.Concat(prompt, ids[:n+1])
		rows, logprobs = append(rows, m.row(all)), append(logprobs, m.logprob(all))
	}

	return map[string]any{
		"output_token_sampling_mask": rows, "output_token_sampling_logprobs": logprobs,
		"output_token_sampling_mask_length": len(rows),
	}
}

// masked changes a route so that its calls ask for masks.
func masked(r gatewayapi.Route) gatewayapi.Route {
	k, p := 8, 0.9
	r.Model.SamplingMasks, r.Model.Sampling = true, &rollout.Sampling{TopK: &k, TopP: &p}

	return r
}

func newMaskedTalk(t *testing.T, e *talker, change ...func(*gateway.Options)) *talk {
	t.Helper()

	s := &talk{host: newHost(t, change...), engine: e, model: newEngine(t, e.ServeHTTP)}
	r := masked(s.route(s.model.URL))
	s.id, s.url = r.ID, s.open(t, r)
	_, err := s.client.Inspect(t.Context(), s.id, gatewayapi.InspectTime)
	require.NoError(t, err)

	return s
}

// requireMasked reads the masks of a rollout's sequences, and compares them with those of the engine. It returns the bytes
// of the file and the number of masks of different turns.
func (s *talk) requireMasked(t *testing.T, sequences []sequence.Sequence) (size, masks int) {
	t.Helper()

	stream, err := s.client.RoutedExperts(t.Context(), s.id)
	require.NoError(t, err)

	var file bytes.Buffer

	_, err = file.ReadFrom(stream)
	require.NoError(t, err)
	require.NoError(t, stream.Close())

	seen := map[int]bool{}

	for _, one := range sequences {
		for _, span := range one.Spans {
			mask := span.SamplingMask
			require.NotNil(t, mask)
			require.Equal(t, span.Stop-span.Start, mask.Rows)

			numbers := make([]int32, mask.Rows+mask.IDs)
			_, err := binary.Decode(file.Bytes()[mask.At:], binary.LittleEndian, numbers)
			require.NoError(t, err)

			counts, ids := numbers[:mask.Rows], numbers[mask.Rows:]
			for n, count := range counts {
				until := one.TokenIDs[:span.Start+n+1]
				require.Equal(t, s.engine.masks.row(until), ids[:count])
				require.InDelta(t, s.engine.masks.logprob(until), one.Logprobs[span.Start+n], 0)

				ids = ids[count:]
			}

			seen[span.Turn] = true
		}
	}

	return file.Len(), len(seen)
}

// The sampling masks of a rollout are aligned with its sampled tokens, over continued turns, changed conversations and
// repeated calls, with routed experts and without; the file has those of a turn once.
func TestSamplingMasks(t *testing.T) {
	t.Parallel()

	for name, engine := range map[string]*talker{
		"by ids":              {takes: "input_ids", masks: masker{on: true}},
		"by messages":         {masks: masker{on: true}},
		"with routed experts": {takes: "input_ids", masks: masker{on: true}, router: router{form: "sglang", experts: 300}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := newMaskedTalk(t, engine, func(o *gateway.Options) {
				o.RoutedExperts = func(string) bool { return engine.router.form != "" }
			})
			spoke := []string{systemSays, userAsks}
			s.say(t, answersWith("First."), spoke...)
			s.say(t, callsOne(), spoke...)
			spoke = append(spoke, repeatsOne, resultOne)
			s.say(t, callsTwo(), spoke...)
			s.say(t, answersWith("No."), append(slices.Clone(spoke[:3]), strings.Replace(resultOne, "one", "…", 1))...)
			s.say(t, answersWith("Done."), append(spoke, repeatsTwo, resultTwo)...)

			least := int64(0)

			for _, turn := range s.turns(t, s.id) {
				require.True(t, turn.Train)
				require.Contains(t, string(turn.Request), `"top_p":0.9,"top_k":8`)
				require.NotContains(t, string(turn.Response), "sampling_mask\":[")

				least += turn.SamplingMask.Bytes()
				if x := turn.RoutedExperts; x != nil {
					least += x.Bytes()
				}
			}

			_, sequences := s.words(t)
			require.Greater(t, len(sequences), 1)

			size, masks := s.requireMasked(t, sequences)
			require.Equal(t, 5, masks)
			require.EqualValues(t, least, size)
		})
	}
}

// The agent, which did not ask for a mask, gets nothing of it.
func TestSamplingMasksAreNotTheAgents(t *testing.T) {
	t.Parallel()

	e := &talker{masks: masker{on: true}}
	s := newMaskedTalk(t, e)

	for _, stream := range []string{`{"stream":true,`, `{`} {
		e.replies = append(e.replies, answersWith("Hi."))
		got := send(t.Context(), s.url, "", strings.Replace(unary, "{", stream, 1))
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Contains(t, got.body, "Hi.")
		require.NotContains(t, got.body, "sampling_mask")
		require.NotContains(t, got.body, "meta_info")
	}
}

// A turn whose reply has no mask says so and is not trained on, since its log probabilities are those of other tokens.
func TestSamplingMasksThatAreMissing(t *testing.T) {
	t.Parallel()

	s := newMaskedTalk(t, &talker{takes: "input_ids", masks: masker{on: true}})
	s.engine.masks.silent = []int{s.engine.masks.calls + 1}
	s.whole(t)

	turns := s.turns(t, s.id)
	require.Equal(t, &rollout.SamplingMask{Missing: "the endpoint gave none"}, turns[1].SamplingMask)
	require.Equal(t, []string{"no sampling mask: the endpoint gave none"}, turns[1].Flaws)

	for n, turn := range turns {
		require.Equal(t, n != 1, turn.Train)
	}
}

// Completions of ids that SGLang's /generate makes have masks too.
func TestSamplingMasksOfGenerate(t *testing.T) {
	t.Parallel()

	e := &talker{masks: masker{on: true}}
	h := newHost(t)
	engine := newSGLang(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			masking
			IDs []int32 `json:"input_ids"`
		}

		_ = json.NewDecoder(r.Body).Decode(&in)

		meta := map[string]any{}
		if in.Mask {
			meta = e.masks.report(in.IDs, []int32{10, 11})
		}

		meta["finish_reason"], meta["prompt_tokens"] = map[string]string{"type": "stop"}, len(in.IDs)
		meta["completion_tokens"] = 2
		meta["output_token_logprobs"] = []any{[]any{-0.5, 10, nil}, []any{-0.5, 11, nil}}

		writeTo(w, map[string]any{"text": "Hello", "meta_info": meta})
	})

	r := masked(h.route(engine.URL))
	m := h.onHost(t, r)

	for n, prompt := range []string{"1,2,3", "1,2,3,10,11,4"} {
		_, err := m.Call(t.Context(), fmt.Sprint(n), "completions", []byte(`{"model":"m","prompt":[`+prompt+`],"max_tokens":9}`))
		require.NoError(t, err)
	}

	s := &talk{host: h, engine: e, id: r.ID}
	_, sequences := s.words(t)
	require.Len(t, sequences, 1)

	_, masks := s.requireMasked(t, sequences)
	require.Equal(t, 2, masks)
}

// An engine that refuses to give masks, as SGLang does for a top_k above its bound, fails the rollout, not the agent.
func TestSamplingMasksThatAreRefused(t *testing.T) {
	t.Parallel()

	h, e := newHost(t), newEngine(t, answers(http.StatusBadRequest, `{"object":"error","message":"return_sampling_mask requires top_k=1 for `+
		`greedy sampling or finite 1 < top_k <= 4; got top_k=8. Lower top_k or increase --sampling-mask-max-tokens.","code":400}`))
	send(t.Context(), h.open(t, masked(h.route(e.URL))), "", unary)
	requireFailure(t, h, fault.UpstreamRefused, "gives no sampling masks")
}

// SGLang refuses a sample with more tied tokens than it records as if the request were wrong. The next sample may fit.
func TestSampleThatExceedsItsMask(t *testing.T) {
	t.Parallel()

	h, e := newHost(t), newEngine(t, answers(http.StatusBadRequest, `{"object":"error","message":"Sampling support exceeds `+
		`--sampling-mask-max-tokens=4, commonly because of cutoff ties. Lower top_k to leave more headroom","code":400}`))
	r := masked(h.route(e.URL))
	r.Limits.Call = 2 * time.Second

	send(t.Context(), h.open(t, r), "", unary)
	require.Greater(t, len(e.requests()), 1)
	requireFailure(t, h, fault.UpstreamFailed, "Lower top_k")
}

// A refusal may repeat the agent's words, by which no policy may exchange a reward of 0 for a failed rollout.
func TestAgentsTextRefusesNoSamplingMasks(t *testing.T) {
	t.Parallel()

	h, e := newHost(t), newEngine(t, answers(http.StatusBadRequest, `{"message":"not a role: return_sampling_mask requires","code":400}`))
	send(t.Context(), h.open(t, masked(h.route(e.URL))), "", `{"model":"m","messages":[{"role":"return_sampling_mask requires"}]}`)
	require.Nil(t, h.status(t, "r1.1").Failure)
	require.Contains(t, h.turns(t, "r1.1")[0].Broken, "rejected: ")
}
