package e2e

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// The routed experts of a rollout are in a file over REST. Its sequence says where those of each token are, though a
// turn keeps only the rows that the one before does not have.
func TestRoutedExperts(t *testing.T) {
	t.Parallel()

	replies := []routedReply{
		{
			prompt: []int32{1, 2, 3}, ids: []int32{10, 11}, finish: "tool_calls",
			message: `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":` +
				`{"name":"terminal","arguments":"{\"command\":\"echo 42 > answer.txt\"}"}}]}`,
		},
		{
			prompt: []int32{1, 2, 3, 10, 11, 20, 21}, ids: []int32{12, 13}, finish: "stop",
			message: `{"role":"assistant","content":"Done."}`,
		},
	}
	url := startEngine(t, func(w http.ResponseWriter, call engineCall) { replies[min(call.results(), 1)].write(w) })
	srv := startDev(t, devOptions{})

	r := runRollout(t, srv.url, args{
		"instruction": "work", "agent": "react", "endpoint": "vllm", "base_url": url, "model": "m",
		"routed_experts": true, "verify": []string{"test -f answer.txt"}, "limits": args{"attempts": 1},
		"react": args{"tools": "native", "continuation": "messages"},
	})
	require.Equal(t, rollout.Completed, r.Outcome, deref(r.Error))

	var s sequence.Sequence

	at := srv.url + "/rollouts/" + r.ID
	require.NoError(t, json.NewDecoder(strings.NewReader(get(t, at+"/trajectory"))).Decode(&s))

	ids := slices.Concat(replies[1].prompt, replies[1].ids)
	require.Equal(t, ids, s.TokenIDs)
	require.NotNil(t, s.RoutedExperts)
	require.Empty(t, s.RoutedExperts.Missing)
	require.Len(t, s.RoutedExperts.Parts, 2)

	file, rows := get(t, at+"/routed_experts"), []byte{}
	for _, p := range s.RoutedExperts.Parts {
		rows = append(rows, file[p.At:][:p.Rows*s.RoutedExperts.Width*p.Type.Size()]...)
	}

	require.Equal(t, expertsOf(ids[:len(ids)-1]), rows)
	require.Len(t, file, len(rows), "each row is there once")
}

// The sampling masks of a rollout are in the same file, where the spans of its sequence say.
func TestSamplingMasks(t *testing.T) {
	t.Parallel()

	only := routedReply{
		prompt: []int32{1, 2, 3}, ids: []int32{10, 11}, finish: "stop", message: `{"role":"assistant","content":"Done."}`,
	}
	url := startEngine(t, func(w http.ResponseWriter, _ engineCall) { only.write(w) })
	srv := startDev(t, devOptions{})

	r := runRollout(t, srv.url, args{
		"instruction": "work", "agent": "react", "endpoint": "vllm", "base_url": url, "model": "m",
		"sampling_masks": true, "sampling": args{"top_k": 2, "top_p": 0.9}, "verify": []string{"true"},
		"limits": args{"attempts": 1}, "react": args{"tools": "native", "continuation": "messages"},
	})
	require.Equal(t, rollout.Completed, r.Outcome, deref(r.Error))

	var s sequence.Sequence

	at := srv.url + "/rollouts/" + r.ID
	require.NoError(t, json.NewDecoder(strings.NewReader(get(t, at+"/trajectory"))).Decode(&s))
	require.Equal(t, []float64{0, 0, 0, -0.25, -0.25}, s.Logprobs)
	require.Equal(t, &rollout.SamplingMask{Rows: 2, IDs: 4}, s.Spans[0].SamplingMask)

	numbers := make([]int32, 6)
	_, err := binary.Decode([]byte(get(t, at+"/routed_experts")), binary.LittleEndian, numbers)
	require.NoError(t, err)
	require.Equal(t, []int32{2, 2, 10, 1010, 11, 1011}, numbers)
}

// routedReply is a reply of an SGLang whose router chooses by the id of a token, and whose sampler had two of them for each.
type routedReply struct {
	prompt, ids     []int32
	message, finish string
}

// expertsOf are the two experts of each of these tokens.
func expertsOf(ids []int32) (rows []byte) {
	for _, id := range ids {
		rows = append(rows, byte(id), byte(2*id))
	}

	return rows
}

func (r routedReply) write(w http.ResponseWriter) {
	all := slices.Concat(r.prompt, r.ids)

	var numbers []byte
	for _, expert := range expertsOf(all[:len(all)-1]) {
		numbers = binary.LittleEndian.AppendUint32(numbers, uint32(expert))
	}

	logprobs, masks, ofMasks := []map[string]any{}, [][]int32{}, []float64{}
	for _, id := range r.ids {
		logprobs = append(logprobs, map[string]any{"token": "t", "logprob": -0.5})
		masks, ofMasks = append(masks, []int32{id, id + 1000}), append(ofMasks, -0.25)
	}

	w.Header().Set("Content-Type", "application/json")
	// a client that has left
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "c", "object": "chat.completion", "created": 1, "model": "m", "prompt_token_ids": r.prompt,
		"sglext": map[string]any{"routed_experts": base64.StdEncoding.EncodeToString(numbers)},
		"choices": []any{map[string]any{
			"index": 0, "message": json.RawMessage(r.message), "finish_reason": r.finish, "token_ids": r.ids,
			"logprobs":  map[string]any{"content": logprobs},
			"meta_info": map[string]any{"output_token_sampling_mask": masks, "output_token_sampling_logprobs": ofMasks},
		}},
		"usage": map[string]any{"prompt_tokens": len(r.prompt), "completion_tokens": len(r.ids)},
	})
}
