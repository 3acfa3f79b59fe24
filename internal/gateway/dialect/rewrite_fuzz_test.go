package dialect

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// For any valid request, the upstream request is valid, asks for a stream of the right model within the
// maximum of tokens, and has every other member unchanged.
func FuzzRewrite(f *testing.F) {
	for _, s := range []string{requestStream, requestUnary, `{}`, `{"max_tokens":1e99,"n":1}`, `{"chat_template_kwargs":{"a":[1]},"stream_options":null}`, `{"\u006dodel":"x","model":"y"}`, `{"include":["a",["]"] ]}`, `{"include":[ ]}`, `{"include":{}}`,
		`{"tools":[{"strict":true,"function":{"strict":1}},{"strict":false},[1], {"function":null}]}`} {
		for api := range uint8(4) {
			f.Add([]byte(s), api)
		}
	}

	on := true
	model := rollout.Model{
		Name:         "real",
		MaxTokensCap: 100,
		Logprobs:     true,
		TopLogprobs:  5,
		TokenIDs:     true,
		Thinking:     &on,
	}
	touched := []string{
		"model",
		"stream",
		"stream_options",
		"chat_template_kwargs",
		"max_tokens",
		"max_completion_tokens",
		"max_output_tokens",
		"logprobs",
		"top_logprobs",
		"return_token_ids",
		"return_weight_versions",
		"enable_response_messages",
		"include",
		"temperature",
		"top_p",
		"top_k",
		"min_p",
		"repetition_penalty",
		"presence_penalty",
		"frequency_penalty",
	}

	f.Fuzz(func(t *testing.T, in []byte, api uint8) {
		a, err := Read(All()[api%4], http.Header{}, in, model, true)
		if err != nil {
			return
		}

		out, changes := a.Body, a.Changes.JSON()
		require.True(t, changes == nil || json.Valid(changes), "%s", changes)

		if !json.Valid(in) || !bytes.HasPrefix(bytes.TrimSpace(in), []byte("{")) {
			return
		}

		require.True(t, json.Valid(out), "%s", out)

		var before, after map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(in, &before))
		require.NoError(t, json.Unmarshal(out, &after))
		require.Equal(t, `"real"`, string(after["model"]))
		require.Equal(t, `true`, string(after["stream"]))

		for _, key := range []string{"max_tokens", "max_output_tokens"} {
			var bound float64
			if api%4 != 2 == (key == "max_tokens") && json.Unmarshal(after[key], &bound) == nil {
				require.LessOrEqual(t, bound, 100.0)
			}
		}

		touched := touched

		var own, sent []json.RawMessage
		if api%4 == 2 && json.Unmarshal(before["include"], &own) == nil {
			// an error means that there is none
			_ = json.Unmarshal(after["include"], &sent)
			require.Equal(t, own, sent[:min(len(own), len(sent))])
		}

		if bytes.Contains(changes, []byte(`"tools.strict"`)) {
			touched = append(touched[:len(touched):len(touched)], "tools")
		}

		for _, key := range touched {
			delete(before, key)
			delete(after, key)
		}

		for key := range before {
			if !takes(All()[api%4].API, key) {
				delete(before, key)
			}
		}

		require.Equal(t, before, after)
	})
}

const requestStream = `{"model":"m","stream":true,"messages":[{"role":"system","content":"You are an agent."},{"role":"user","content":"hi"}],"tools":[{"type":"function"}],"max_tokens":32000,` +
	`"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":5,"return_token_ids":true,"return_weight_versions":true}`

const requestUnary = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
