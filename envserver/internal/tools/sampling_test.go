package tools_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The parameters may be at top level or in an object. For training, all others that shift log probabilities
// are set to neutral values.
func TestSamplingArguments(t *testing.T) {
	t.Parallel()

	for _, args := range []string{
		`"sampling":{"temperature":0.7,"seed":3}`, `"temperature":0.7,"seed":3`, `"temperature":"0.7","sampling":{"temperature":0.7,"seed":3}`,
		`"temperature":0.7,"seed":3,"purpose":"train","eval_sampling":{"temperature":0}`, `"temperature":0.7,"seed":3,"purpose":"auto","top_k":-1,"top_p":1,"sampling":{"min_p":0}`,
	} {
		s, err := begin(t, `{"instruction":"x","endpoint":"vllm",`+args+`}`)
		require.NoError(t, err, args)

		m := s.Model.Sampling
		require.Equal(t, 0.7, *m.Temperature, args)
		require.Equal(t, int64(3), *m.Seed)
		require.Equal(
			t,
			[]any{1.0, -1, 0.0, 1.0, 0.0, 0.0},
			[]any{*m.TopP, *m.TopK, *m.MinP, *m.RepetitionPenalty, *m.PresencePenalty, *m.FrequencyPenalty},
		)
		require.Nil(t, m.MaxTokens)
		require.True(t, s.Model.Training())
	}

	s, err := begin(
		t,
		`{"instruction":"x","endpoint":"vllm","purpose":"eval","eval_sampling":{"temperature":0,"top_p":0.9,"top_k":40},"stop":["a"],"sampling":{"top_p":0.5}}`,
	)
	require.NoError(t, err)
	require.Equal(t, 0.9, *s.Model.Sampling.TopP)
	require.Equal(t, []string{"a"}, s.Model.Sampling.Stop)
	require.Nil(t, s.Model.Sampling.MinP, "nothing is made neutral for evaluation")
	require.False(t, s.Model.Training())

	s, err = begin(t, `{"instruction":"x","endpoint":"vllm","purpose":"train"}`)
	require.NoError(t, err)
	require.Nil(t, s.Model.Sampling.Temperature, "the agent's own")
	require.Equal(t, 1.0, *s.Model.Sampling.TopP)

	s, err = begin(t, `{"instruction":"x","endpoint":"vllm","mode":"black_box","top_p":0.5}`)
	require.NoError(t, err)
	require.Equal(t, rollout.PurposeEval, s.Model.Purpose, "nothing is captured that could be trained on")
}

func TestSamplingIsRefused(t *testing.T) {
	t.Parallel()

	for args, want := range map[string]string{
		`"sampling":{"top_p":0.9}`:                                          `sampling.top_p: must be 1 for purpose "train"`,
		`"sampling_masks":true`:                                             "sampling.top_k: must be 2 or more with sampling_masks",
		`"sampling_masks":true,"top_k":1`:                                   "sampling.top_k: must be 2 or more with sampling_masks",
		`"sampling_masks":true,"top_k":9,"top_p":2`:                         "sampling.top_p: must be above 0 and at most 1",
		`"sampling_masks":true,"top_k":9,"sampling":{"presence_penalty":1}`: "sampling.presence_penalty: must be 0",
		`"top_k":20`:               `sampling.top_k: must be -1 for purpose "train"`,
		`"repetition_penalty":1.1`: `sampling.repetition_penalty: must be 1 for purpose "train"`,
		`"temperature":0`:          `sampling.temperature: must be above 0 for purpose "train"`,
		`"purpose":"eval","sampling":{"temperature":1}`:       "eval_sampling",
		`"purpose":"other"`:                                   `"auto" or "train" or "eval"`,
		`"purpose":"eval","temperature":3`:                    "at most 2",
		`"purpose":"eval","top_p":0`:                          "above 0",
		`"purpose":"eval","top_k":-2`:                         "must be -1",
		`"temperature":1,"sampling":{"temperature":0.5}`:      "differs from sampling.temperature",
		`"max_tokens":0`:                                      "at least 1",
		`"stop":[""]`:                                         "1 to 1024 bytes",
		`"sampling":{"logit_bias":{}}`:                        "unknown argument",
		`"purpose":"train","mode":"black_box"`:                "captures no tokens",
		`"purpose":"train","endpoint":"openai","api_key":"k"`: "does not give",
	} {
		if want == "does not give" {
			args = `"instruction":"x",` + args
		} else {
			args = `"instruction":"x","endpoint":"vllm",` + args
		}

		_, err := begin(t, `{`+args+`}`)
		require.ErrorContains(t, err, want, args)
	}
}
