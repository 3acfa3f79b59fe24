package audit_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/audit"
)

func TestCompare(t *testing.T) {
	t.Parallel()

	same := audit.Compare([]float64{-1, -2}, []float64{-1, -2})
	require.Zero(t, same.MeanAbs()+same.K1()+same.K3())

	d := audit.Compare([]float64{-1, -2}, []float64{-1.5, -1.5})
	require.InDelta(t, 0.5, d.MeanAbs(), 1e-12)
	require.InDelta(t, 0, d.K1(), 1e-12)
	require.InDelta(t, (math.Exp(-0.5)+math.Exp(0.5))/2-1, d.K3(), 1e-12)

	d.Add(same)
	require.Equal(t, 4, d.Tokens())
	require.InDelta(t, 0.25, d.MeanAbs(), 1e-12)
	require.Zero(t, audit.Difference{}.K3())
	require.False(t, math.IsInf(audit.Compare([]float64{-745}, []float64{0}).K3(), 0), "JSON has no infinity")
}

func turn() audit.Turn {
	return audit.Turn{Model: "m:a", Prompt: []int32{1, 2}, Completion: []int32{3, 4}}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	require.JSONEq(t, `{"input_ids":[1,2,3,4],"sampling_params":{"max_new_tokens":1,"temperature":1},"return_logprob":true,
		"logprob_start_len":1,"extra_key":"s","lora_path":"a"}`, string(turn().Generate("s")))

	for raw, want := range map[string]string{
		`{"meta_info":{"weight_version":"7","input_token_logprobs":[[null,2,null],[-0.5,3,null],[-0.25,4,"x"]]}}`: "",
		`{"meta_info":{"input_token_logprobs":[[-0.5,3,null],[-0.25,5,null]]}}`:                                   "other tokens",
		`{"meta_info":{"input_token_logprobs":[[null,3,null],[-0.25,4,null]]}}`:                                   "other tokens",
		`{"meta_info":{"input_token_logprobs":[[-1],[-0.25,4,null]]}}`:                                            "other tokens",
		`{}`: "too few",
		`[`:  "scores of the endpoint",
	} {
		logprobs, version, err := turn().ReadGenerate([]byte(raw))
		if want != "" {
			require.ErrorContains(t, err, want, raw)
			continue
		}

		require.NoError(t, err)
		require.Equal(t, []float64{-0.5, -0.25}, logprobs)
		require.Equal(t, "7", version)
	}
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	require.JSONEq(t, `{"model":"m:a","prompt":[1,2,3,4],"max_tokens":1,"temperature":1,"prompt_logprobs":0,"cache_salt":"s"}`,
		string(turn().Completions("s")))

	for raw, want := range map[string]string{
		`{"choices":[{"prompt_logprobs":[null,{"2":{"logprob":-1}},{"3":{"logprob":-0.5},"9":{"logprob":-0.1}},{"4":{"logprob":-0.25}}]}]}`: "",
		`{"choices":[{"prompt_logprobs":[null,{"2":{"logprob":-1}},{"3":{"logprob":-0.5}},{"9":{"logprob":-0.1}}]}]}`:                       "other tokens",
		`{"choices":[{"prompt_logprobs":[null,null,{"3":{"logprob":-1e300}},{"4":{"logprob":-0.25}}]}]}`:                                    "other tokens",
		`{"choices":[{"prompt_logprobs":[null,null,{"3":{"logprob":1e300}},{"4":{"logprob":-0.25}}]}]}`:                                     "other tokens",
		`{"choices":[{"text":"a"}]}`: "does not score",
		`{}`:                         "does not score",
	} {
		logprobs, _, err := turn().ReadCompletions([]byte(raw))
		if want != "" {
			require.ErrorContains(t, err, want, raw)
			continue
		}

		require.NoError(t, err)
		require.Equal(t, []float64{-0.5, -0.25}, logprobs)
	}
}

// Replies of an endpoint are hostile.
func FuzzScores(f *testing.F) {
	f.Add(`{"meta_info":{"input_token_logprobs":[[-0.5,3,null],[-0.25,4,"x"]]}}`)
	f.Add(`{"choices":[{"prompt_logprobs":[null,null,{"3":{"logprob":-0.5}},{"4":{"logprob":NaN}}]}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		for _, read := range []func([]byte) ([]float64, string, error){turn().ReadGenerate, turn().ReadCompletions} {
			if logprobs, _, err := read([]byte(raw)); err == nil {
				require.Len(t, logprobs, 2)
			}
		}
	})
}
