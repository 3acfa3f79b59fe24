package tools_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A rollout with the arguments of another one is the same rollout.
func TestArgumentsOfARollout(t *testing.T) {
	t.Parallel()

	for name, args := range map[string]string{
		"few":     `{"instruction":"x","endpoint":"vllm"}`,
		"grading": `{"instruction":"x","endpoint":"vllm","test_script":"echo 1","test_files":{"a":"b"},"reward_range":[-1,2],"reward_key":"k","on_timeout":"null","verifier":{"grade":"live"}}`,
		"sizes":   `{"instruction":"x","endpoint":"vllm","setup":["a","b"],"verify":["c"],"sandbox":{"cpu":2,"memory":"2GiB","env":{"A":"b"}},"limits":{"turns":7,"verifier_s":9},"agent_timeout_s":300}`,
		"train":   `{"instruction":"x","endpoint":"vllm","model":"m","routed_experts":true,"purpose":"train","temperature":1,"disable_thinking":false,"top_logprobs":2,"max_tokens_cap":99}`,
		"masks":   `{"instruction":"x","endpoint":"vllm","sampling_masks":true,"purpose":"train","sampling":{"top_k":64,"top_p":0.9}}`,
		"eval":    `{"instruction":"x","endpoint":"vllm","purpose":"eval","eval_sampling":{"temperature":0.5},"price":{"prompt":1,"completion":2},"translate":"none","messages":"full"}`,
		"thinks":  `{"instruction":"x","model_key":"vllm://Qwen/Qwen3-4B","thinking":true}`,
		"own":     `{"instruction":"x","base_url":"https://models.example.org/v1","model":"m","task_id":"t","upload_files":{"a.txt":"b"},"continuation":"messages","user_turn":"render"}`,
		"tools":   `{"instruction":"x","endpoint":"vllm","sandbox":{"mcp_servers":[{"name":"a","transport":"stdio","command":"b","args":["c"]}],"skills_dir":"skills"}}`,
		"oracle":  `{"instruction":"x","agent":"opencode","endpoint":"vllm","solution":["true"],"images":true,"mode":"black_box"}`,
	} {
		spec, err := begin(t, args)
		require.NoError(t, err, name)

		like, leftOut := table(t, &recorder{}).Arguments(spec)
		if name == "own" {
			require.Equal(t, []string{"api_key"}, leftOut)
		} else {
			require.Empty(t, leftOut, name)
		}

		text, err := json.Marshal(like)
		require.NoError(t, err)

		_, err = jsonvalue.Decode(text)
		require.NoError(t, err)

		again, err := begin(t, string(text))
		require.NoError(t, err, string(text))
		require.Equal(t, spec, again, name)
	}
}

// What the form cannot have is named.
func TestArgumentsThatAreLeftOut(t *testing.T) {
	t.Parallel()

	_, leftOut := table(t, &recorder{}).Arguments(rollout.Spec{Task: rollout.Task{
		FilesRef: &rollout.Ref{}, Verifier: rollout.Verifier{FilesRef: &rollout.Ref{}}, Steps: make([]rollout.Step, 2),
	}})
	require.Equal(t, []string{"upload_files", "test_files", "steps"}, leftOut)
}
