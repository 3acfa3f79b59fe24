package upstream

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTakes(t *testing.T) {
	t.Parallel()

	for body, want := range map[string]bool{
		`{"prompt":[1,2]}`:               true,
		`{"prompt": [ 7 ] }`:             true,
		`{"prompt":[1],"suffix":null}`:   true,
		`{"prompt":[1],"suffix":"x"}`:    false,
		`{"prompt":[[1,2]]}`:             false,
		`{"prompt":["a"]}`:               false,
		`{"prompt":[]}`:                  false,
		`{"prompt":"text"}`:              false,
		`{}`:                             false,
		`{"messages":[{"role":"user"}]}`: false,
		`[`:                              false,
	} {
		require.Equal(t, want, generateTakes([]byte(body)), body)
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ name, completion, want string }{
		{"no bound", `{"model":"m","prompt":[1,2],"stream":true}`, `{"input_ids":[1,2],"sampling_params":{"max_new_tokens":null}}`},
		{
			"all",
			`{"model":"m","prompt":[1,2],"max_tokens":40,"temperature":0.7,"top_p":0.9,"top_k":5,"min_p":0.1,"seed":3,"stop":["a"],"logprobs":0,
			"presence_penalty":1,"frequency_penalty":0.5,"repetition_penalty":1.1,"return_token_ids":true,"user":"u"}`,
			`{"input_ids":[1,2],"return_logprob":true,"logprob_start_len":-1,"sampling_params":{"max_new_tokens":40,"temperature":0.7,"top_p":0.9,
			"top_k":5,"min_p":0.1,"sampling_seed":3,"stop":["a"],"presence_penalty":1,"frequency_penalty":0.5,"repetition_penalty":1.1}}`,
		},
		{
			"alternatives", `{"prompt":[1],"logprobs":3,"max_tokens":null}`,
			`{"input_ids":[1],"return_logprob":true,"logprob_start_len":-1,"top_logprobs_num":3,"sampling_params":{"max_new_tokens":null}}`,
		},
		{
			"salt of the gateway", `{"prompt":[1],"extra_key":null,"cache_salt":"a"}`,
			`{"input_ids":[1],"extra_key":"a","sampling_params":{"max_new_tokens":null}}`,
		},
		{
			"key of the agent", `{"prompt":[1],"extra_key":"b"}`,
			`{"input_ids":[1],"extra_key":"b","sampling_params":{"max_new_tokens":null}}`,
		},
		{"adapter", `{"model":"base:mine","prompt":[1]}`, `{"input_ids":[1],"lora_path":"mine","sampling_params":{"max_new_tokens":null}}`},
	} {
		got, err := generateRequest([]byte(c.completion))
		require.NoError(t, err, c.name)
		require.JSONEq(t, c.want, string(got), c.name)
	}
}

func TestReply(t *testing.T) {
	t.Parallel()

	const sent = `{"prompt":[1,2]}`
	for _, c := range []struct{ name, reply, choice, rest string }{
		{
			"whole",
			`{"text":"hi","output_ids":[5,6],"meta_info":{"id":"a","finish_reason":{"type":"stop","matched":6},"prompt_tokens":2,"completion_tokens":2,
			"cached_tokens":1,"weight_version":"v3","output_token_logprobs":[[-0.5,5,null],[NaN,6,"x"]],"output_top_logprobs":[[[-0.5,5,null],[-1,9,null]],[]]}}`,
			`{"index":0,"text":"hi","finish_reason":"stop","prompt_token_ids":[1,2],"token_ids":[5,6],"logprobs":{"tokens":["token_id:5","token_id:6"],
			"token_logprobs":[-0.5,null],"top_logprobs":[{"token_id:5":-0.5,"token_id:9":-1},{}]}}`,
			`"id":"a","weight_version":"v3","usage":{"prompt_tokens":2,"completion_tokens":2,"total_tokens":4,"prompt_tokens_details":{"cached_tokens":1}}`,
		},
		{
			"no list of ids, a prompt that was cut",
			`{"text":"","meta_info":{"finish_reason":{"type":"length","length":1},"prompt_tokens":1,"completion_tokens":1,"output_token_logprobs":[[-0.5,5,null]]}}`,
			`{"index":0,"text":"","finish_reason":"length","token_ids":[5],"logprobs":{"tokens":["token_id:5"],"token_logprobs":[-0.5]}}`,
			`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}`,
		},
		{
			"two lists that differ",
			`{"text":"x","output_ids":[7],"meta_info":{"finish_reason":null,"prompt_tokens":2,"completion_tokens":1,"output_token_logprobs":[[-0.5,5,null]]}}`,
			`{"index":0,"text":"x","finish_reason":"","prompt_token_ids":[1,2],"logprobs":null}`,
			`"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}`,
		},
	} {
		got, err := completionOfGenerate([]byte(sent), []byte(c.reply))
		require.NoError(t, err, c.name)
		require.JSONEq(t, `{"object":"text_completion","choices":[`+c.choice+`],`+c.rest+`}`, string(got), c.name)
	}

	for name, reply := range map[string]string{
		"no text":                   `{"meta_info":{}}`,
		"not an object":             `<html>`,
		"a token without an id":     `{"text":"x","meta_info":{"output_token_logprobs":[[-1]]}}`,
		"an id that is too large":   `{"text":"x","meta_info":{"output_token_logprobs":[[-1,3000000000,null]]}}`,
		"an id below 0":             `{"text":"x","meta_info":{"output_token_logprobs":[[-1,-5,null]]}}`,
		"nested beyond any reply":   `{"text":"x","y":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}`,
		"alternatives of no tokens": `{"text":"x","meta_info":{"output_token_logprobs":[],"output_top_logprobs":[[["a","b"]]]}}`,
	} {
		_, err := completionOfGenerate([]byte(sent), []byte(reply))
		require.Error(t, err, name)
	}
}
