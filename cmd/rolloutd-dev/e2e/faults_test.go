package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// A call that the engine's parser loses is a flaw of its turn in the result and on the page, is counted for its endpoint in
// the metrics, and is not trained on by choice.
func TestEngineFaults(t *testing.T) {
	t.Parallel()

	const arguments = `{"command": "echo 42 > answer.txt"}`

	tokens := []string{"<tool_call>", `{"name": "terminal", "arguments": ` + arguments + `}`, "</tool_call>", "<|im_end|>"}
	whole := map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
		"id": "a", "type": "function", "function": map[string]any{"name": "terminal", "arguments": arguments},
	}}}
	lost := map[string]any{"role": "assistant", "content": strings.Join(tokens[:3], "")}
	url := startEngine(t, func(w http.ResponseWriter, call engineCall) {
		if call.results() == 0 {
			writeSampled(w, []int32{1, 2, 3}, whole, "tool_calls", tokens)
		} else {
			writeSampled(w, []int32{1, 2, 3, 10, 11, 12, 13, 20}, lost, "stop", tokens)
		}
	})
	srv := startDev(t, devOptions{})

	r := runRollout(t, srv.url, args{
		"instruction": "work", "agent": "react", "endpoint": "vllm", "base_url": url, "model": "m",
		"on_engine_fault": "mask", "verify": []string{"test -f answer.txt"}, "limits": args{"attempts": 1},
		"react": args{"tools": "native", "continuation": "messages"},
	})
	require.Equal(t, rollout.Completed, r.Outcome, deref(r.Error))
	require.Equal(t, "engine_call_lost", string(rollout.EngineFaultOf(r.ProxyTurns[1].Flaws[0])))

	at := srv.url + "/rollouts/" + r.ID
	require.Contains(t, get(t, at+"/turns"), "engine_call_lost: ")
	require.Regexp(t, `(?m)^rolloutd_gateway_engine_faults_total\{endpoint="[^"]+",fault="engine_call_lost"[^}]*\} 1$`, get(t, srv.metrics))

	var s sequence.Sequence

	require.NoError(t, json.NewDecoder(strings.NewReader(get(t, at+"/trajectory"))).Decode(&s))
	require.Len(t, s.Spans, 2)
	require.True(t, s.Spans[0].Train)
	require.False(t, s.Spans[1].Train)
}

// writeSampled writes a reply of an engine: the message that its parser made, and the tokens that were sampled, with the
// ids from 10 on.
func writeSampled(w http.ResponseWriter, prompt []int32, message any, finish string, tokens []string) {
	ids, logprobs := []int{}, []any{}
	for n, token := range tokens {
		ids = append(ids, 10+n)
		logprobs = append(logprobs, map[string]any{"token": token, "logprob": -0.5})
	}

	w.Header().Set("Content-Type", "application/json")
	// a client that has left
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "c", "object": "chat.completion", "created": 1, "model": "m", "prompt_token_ids": prompt,
		"choices": []any{map[string]any{
			"index": 0, "message": message, "finish_reason": finish, "token_ids": ids,
			"logprobs": map[string]any{"content": logprobs},
		}},
		"usage": map[string]any{"prompt_tokens": len(prompt), "completion_tokens": len(tokens)},
	})
}
