package gateway_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Experts of a layer and layers of a router.
const (
	topK   = 4
	layers = 3
)

// router chooses experts by all tokens so far, so that a row in a wrong place is another one.
type router struct {
	// vLLM's array or SGLang's numbers; "": none
	form string

	// of a layer
	experts uint64

	// knows no member that leaves rows out
	old bool

	// the calls that get no rows, from 0
	silent []int
	calls  int
}

// routing is what a call asks of a router.
type routing struct {
	Wanted      bool `json:"return_routed_experts"`
	Start       int  `json:"routed_experts_start_len"`
	PromptStart int  `json:"routed_experts_prompt_start"`
	Stream      bool `json:"stream"`
}

// row returns the experts of the last token.
func (r *router) row(ids []int32) []uint64 {
	row, hash := []uint64{}, fnv.New64a()
	_ = binary.Write(hash, binary.LittleEndian, ids)

	for n := range uint64(layers * topK) {
		row = append(row, (hash.Sum64()>>n)%r.experts)
	}

	return row
}

func (r *router) rows(ids []int32, from int) (rows [][]uint64) {
	for n := from; n < len(ids)-1; n++ {
		rows = append(rows, r.row(ids[:n+1]))
	}

	return rows
}

// answer adds the rows to a reply.
func (r *router) answer(reply, choice map[string]any, in routing, ids []int32) {
	r.calls++

	if r.form == "" || in.Stream || slices.Contains(r.silent, r.calls-1) {
		return
	}

	if r.form == "vllm" {
		from := in.PromptStart
		if r.old {
			from = 0
		}

		choice["routed_experts"] = r.array(r.rows(ids, from))
	} else if in.Wanted {
		reply["sglext"] = map[string]any{"routed_experts": encoded[int32](r.rows(ids, in.Start))}
	}
}

func (r *router) array(rows [][]uint64) string {
	numbers, kind := encodedBytes[uint8](rows), "|u1"
	if r.experts > 256 {
		numbers, kind = encodedBytes[uint16](rows), "<u2"
	}

	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d, %d), }", kind, len(rows), layers, topK)
	head += strings.Repeat(" ", (64-(len(head)+11)%64)%64) + "\n"

	file := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(head)))

	return base64.StdEncoding.EncodeToString(slices.Concat(file, []byte(head), numbers))
}

func encodedBytes[T uint8 | uint16 | int32](rows [][]uint64) []byte {
	var out bytes.Buffer

	for _, row := range rows {
		for _, n := range row {
			_ = binary.Write(&out, binary.LittleEndian, T(n))
		}
	}

	return out.Bytes()
}

func encoded[T uint8 | uint16 | int32](rows [][]uint64) string {
	return base64.StdEncoding.EncodeToString(encodedBytes[T](rows))
}

// requireRouted reads the rows of a rollout's sequences, and compares them with those of the engine. It returns their
// number in the file.
func (s *talk) requireRouted(t *testing.T, sequences []sequence.Sequence) int {
	t.Helper()

	stream, err := s.client.RoutedExperts(t.Context(), s.id)
	require.NoError(t, err)

	var file bytes.Buffer

	_, err = file.ReadFrom(stream)
	require.NoError(t, err)
	require.NoError(t, stream.Close())

	size := 1

	for _, one := range sequences {
		require.NotNil(t, one.RoutedExperts)
		require.Equal(t, layers*topK, one.RoutedExperts.Width)

		var got []uint64

		for _, p := range one.RoutedExperts.Parts {
			size = p.Type.Size()

			rows := file.Bytes()[p.At:][:p.Rows*layers*topK*size]
			for at := 0; at < len(rows); at += size {
				n := uint64(rows[at])
				if size > 1 {
					n = uint64(binary.LittleEndian.Uint16(rows[at:]))
				}

				got = append(got, n)
			}
		}

		want := s.engine.router.rows(one.TokenIDs, 0)[:one.RoutedExperts.Rows]
		require.Equal(t, slices.Concat(want...), got)
	}

	return file.Len() / (size * layers * topK)
}

// wantsExperts asks every endpoint for routed experts.
func wantsExperts(o *gateway.Options) { o.RoutedExperts = func(string) bool { return true } }

// The routed experts of a rollout are aligned with its tokens, over continued turns, subagents, changed conversations
// and repeated calls; the file has a row for each token that the engine processed, once.
func TestRoutedExperts(t *testing.T) {
	t.Parallel()

	for name, engine := range map[string]*talker{
		"vLLM":                   {takes: "kv_transfer_params", router: router{form: "vllm", experts: 64}},
		"vLLM with more experts": {takes: "kv_transfer_params", router: router{form: "vllm", experts: 512}},
		"vLLM of old":            {takes: "kv_transfer_params", router: router{form: "vllm", experts: 64, old: true}},
		"vLLM by messages":       {router: router{form: "vllm", experts: 64}},
		"SGLang":                 {takes: "input_ids", router: router{form: "sglang", experts: 64}},
		"SGLang by messages":     {router: router{form: "sglang", experts: 300}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := newTalk(t, engine, wantsExperts)
			spoke := []string{systemSays, userAsks}
			s.say(t, answersWith("First."), spoke...)
			s.say(t, callsOne(), spoke...)
			s.say(t, answersWith("Sub."), `{"role":"system","content":"You are a subagent."}`, userAsks)

			spoke = append(spoke, repeatsOne, resultOne)
			s.say(t, callsTwo(), spoke...)
			s.say(t, answersWith("No."), append(slices.Clone(spoke[:3]), strings.Replace(resultOne, "one", "…", 1))...)
			s.say(t, answersWith("Done."), append(spoke, repeatsTwo, resultTwo)...)

			_, sequences := s.words(t)
			rows := s.requireRouted(t, sequences)

			distinct := map[string]bool{}

			for _, turn := range s.turns(t, s.id) {
				ids := slices.Concat(turn.PromptTokenIDs, turn.CompletionTokenIDs)
				for n := range ids[1:] {
					distinct[fmt.Sprint(ids[:n+1])] = true
				}

				require.NotContains(t, string(turn.Response), "routed_experts\":\"")
			}

			for _, one := range sequences {
				require.Empty(t, one.RoutedExperts.Missing)
				require.Equal(t, len(one.TokenIDs)-1, one.RoutedExperts.Rows)
			}

			require.LessOrEqual(t, float64(rows), 1.1*float64(len(distinct)), "rows on disk, of the least number")
		})
	}
}

// A turn whose reply has no rows says so, and so does its sequence until a later turn has them.
func TestRoutedExpertsThatAreMissing(t *testing.T) {
	t.Parallel()

	s := newTalk(t, &talker{takes: "kv_transfer_params", router: router{form: "vllm", experts: 64}}, wantsExperts)
	calls := s.engine.router.calls
	s.engine.router.silent = []int{calls + 1, calls + 3}
	s.whole(t)

	turns := s.turns(t, s.id)
	require.Equal(t, &rollout.RoutedExperts{Missing: "the endpoint gave none"}, turns[1].RoutedExperts)
	require.Equal(t, 1, turns[2].RoutedExperts.Base)

	_, sequences := s.words(t)
	s.requireRouted(t, sequences)
	require.Equal(t, "turn 4: the endpoint gave none", sequences[0].RoutedExperts.Missing)
	require.Equal(t, len(turns[2].PromptTokenIDs)+len(turns[2].CompletionTokenIDs)-1, sequences[0].RoutedExperts.Rows)
}

// A gateway that starts again continues the rows that it has, and a call that it makes again has its rows once.
func TestRoutedExpertsAfterARestart(t *testing.T) {
	t.Parallel()

	s := newTalk(t, &talker{takes: "kv_transfer_params", router: router{form: "vllm", experts: 64}}, wantsExperts)
	s.say(t, callsOne(), systemSays, userAsks)
	s.stop()
	s.start(t)
	s.url = s.channels.url(t, s.route(s.model.URL).SandboxID)
	_, err := s.client.Inspect(t.Context(), s.id, gatewayapi.InspectTime)
	require.NoError(t, err)
	s.say(t, callsTwo(), systemSays, userAsks, repeatsOne, resultOne)

	turns := s.turns(t, s.id)
	require.Equal(t, 1, turns[1].RoutedExperts.Base)

	_, sequences := s.words(t)
	require.Len(t, sequences, 1)
	require.Equal(t, len(sequences[0].TokenIDs)-1, s.requireRouted(t, sequences))

	// from its record
	again := send(t.Context(), s.url, "call-2", chatBody(systemSays, userAsks, repeatsOne, resultOne))
	require.Equal(t, http.StatusOK, again.status)
	require.Equal(t, len(sequences[0].TokenIDs)-1, s.requireRouted(t, sequences))
}

// Completions of ids that SGLang's /generate makes have routed experts too: of the second call only the new rows.
func TestRoutedExpertsOfGenerate(t *testing.T) {
	t.Parallel()

	e := &talker{router: router{form: "sglang", experts: 64}}
	h := newHost(t)
	engine := newSGLang(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			routing
			IDs []int32 `json:"input_ids"`
		}

		_ = json.NewDecoder(r.Body).Decode(&in)

		meta := map[string]any{
			"finish_reason": map[string]string{"type": "stop"}, "prompt_tokens": len(in.IDs), "completion_tokens": 2,
			"output_token_logprobs": []any{[]any{-0.5, 10, nil}, []any{-0.5, 11, nil}},
		}
		if in.Wanted {
			meta["routed_experts"] = encoded[int32](e.router.rows(append(in.IDs, 10, 11), in.Start))
		}

		writeTo(w, map[string]any{"text": "Hello", "meta_info": meta})
	})

	r := h.route(engine.URL)
	r.Model.RoutedExperts = true
	m := h.onHost(t, r)

	for n, prompt := range []string{"1,2,3", "1,2,3,10,11,4"} {
		_, err := m.Call(t.Context(), fmt.Sprint(n), "completions", []byte(`{"model":"m","prompt":[`+prompt+`],"max_tokens":9}`))
		require.NoError(t, err)
	}

	s := &talk{host: h, engine: e, id: r.ID}
	_, sequences := s.words(t)
	require.Len(t, sequences, 1)
	require.Equal(t, 7, s.requireRouted(t, sequences))
	require.Equal(t, 7, sequences[0].RoutedExperts.Rows)
}

// Without the setting no call asks for rows.
func TestRoutedExpertsAreAskedForByChoice(t *testing.T) {
	t.Parallel()

	s := newTalk(t, &talker{takes: "kv_transfer_params", router: router{form: "sglang", experts: 64}})
	s.whole(t)

	for _, turn := range s.turns(t, s.id) {
		require.Nil(t, turn.RoutedExperts)
		require.NotContains(t, string(turn.Request), "routed_experts")
	}
}

// Rows that an engine left out as it was asked to are known only if it had the prompt that it was sent.
func TestRoutedExpertsOfAnotherPrompt(t *testing.T) {
	t.Parallel()

	before := []int32{1, 2, 3, 4}
	rows := []byte(encoded[int32]([][]uint64{{7}, {8}}))

	for _, c := range []struct {
		prompt []int32
		want   string
	}{
		{[]int32{1, 2, 3, 4, 5}, ""},
		{[]int32{1, 9, 3, 4, 5}, "2 rows for 6 tokens, of which 1 were known"},
	} {
		rec := &trace.Record{PromptTokenIDs: c.prompt, TokenIDs: []int32{6}}

		err := gateway.ReadExperts(rows, rec, before, 3)
		if c.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.want)
		}
	}
}
