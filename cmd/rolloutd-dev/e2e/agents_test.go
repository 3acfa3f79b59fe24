package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Real command-line agents work on the demo task, each with its own model API: Codex with Responses, Claude
// Code with Messages, Qwen Code with chat completions, Gemini CLI with Google's API. rolloutd grades them
// and captures their calls as it does for OpenCode. Calls that the gateway translates to chat completions
// have token ids and can be trained on.
func TestRolloutsOfCommandAgents(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	for _, c := range []struct {
		agent, api string
		translated bool
	}{
		{"codex", "responses", false},
		{"claude-code", "messages", false},
		{"qwen-code", "chat/completions", false},
		{"codex", "chat/completions", true},
		{"claude-code", "chat/completions", true},
		{"gemini-cli", "chat/completions", true},
	} {
		t.Run(fmt.Sprintf("%s translated %t", c.agent, c.translated), func(t *testing.T) {
			t.Parallel()
			task := exampleArgs(t, "binary_search")

			task["agent"] = c.agent
			if c.translated {
				task["translate"] = "chat_completions"
			}

			result := runRollout(t, srv.url, task)
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward)
			require.InDelta(t, 1.0, *result.Reward, 0, "%+v", result.VerifyResults)
			require.Zero(t, *result.AgentExitCode)
			require.Contains(t, result.InstallLogTail, "package @")
			require.NotEmpty(t, result.AgentLogTail)
			require.Len(t, result.ProxyTurns, 6)

			for _, turn := range result.ProxyTurns {
				require.Equal(t, rollout.KindAgent, turn.Kind)
				require.True(t, turn.Delivered, "%d of %d: %+v", turn.Turn, len(result.ProxyTurns), turn.Flaws)
				// that API has no token ids
				if c.api != "messages" {
					require.NotEmpty(t, turn.PromptTokenIDs)
					require.NotEmpty(t, turn.CompletionTokenIDs)
				}

				if c.translated {
					require.True(t, turn.Train, "%v", turn.Flaws)
				}
			}

			if c.translated {
				require.Equal(t, rollout.CaptureTokens, result.CaptureLevel)
			}

			require.Contains(t, get(t, srv.url+"/rollouts/"+result.ID+"/messages"), "all cases pass", "its transcript")
		})
	}
}

// The operator's configuration describes the agent. The agent reads its instruction from a file, and a
// child process of the agent calls the model.
func TestConfiguredAgent(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "asker.py"), []byte(`
import json, os, sys, urllib.request
with open(sys.argv[1]) as f:
    instruction = f.read()
body = json.dumps({"model": "x", "messages": [{"role": "user", "content": instruction}]}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"Content-Type": "application/json"})
answer = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
with open("answer.txt", "w") as f:
    f.write(answer)
with open(sys.argv[2], "w") as f:
    f.write(json.dumps({"role": "assistant", "content": answer}))
print("STATUS " + answer)
`), 0o644))
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
agents:
  - name: asker
    folder: `+folder+`
    check: [python3, --version]
    command: [bash, -c, "python3 -u {dir}/asker.py {instruction_file} /tmp/record.jsonl; exit $?"]
    output: /tmp/record.jsonl
    failure: '"content": "no'
`), 0o644))
	model := startModel(t, "- {match: please fail, turns: [{text: no way}]}\n- {turns: [{text: yes indeed}]}\n")
	srv := startDev(t, devOptions{modelURL: model.url, flags: []string{"--config", file}})

	good := runRollout(t, srv.url, args{
		"instruction": "please",
		"agent":       "asker",
		"endpoint":    "scripted",
		"verify":      []string{"grep -q yes answer.txt"},
	})
	require.Equal(t, rollout.Completed, good.Outcome, deref(good.Error))
	require.InDelta(t, 1.0, *good.Reward, 0)
	require.Len(t, good.ProxyTurns, 1)
	require.Equal(t, rollout.KindAgent, good.ProxyTurns[0].Kind, "a child of the agent's process calls as the agent")
	require.Contains(t, good.AgentLogTail, `"content":"yes indeed"`)
	require.Contains(t, good.InstallLogTail, "Python 3")

	bad := runRollout(t, srv.url, args{
		"instruction": "please fail",
		"agent":       "asker",
		"endpoint":    "scripted",
		"verify":      []string{"true"},
	})
	require.Equal(t, rollout.AgentFailed, bad.Outcome)
	require.Contains(t, deref(bad.Error), "asker reported a failure")
}
