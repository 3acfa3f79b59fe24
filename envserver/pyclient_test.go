package envserver_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// TestPythonClients runs the published clients of two releases: the one that the wire contract describes,
// and a later one whose tool client calls other paths.
func TestPythonClients(t *testing.T) {
	t.Parallel()

	for _, release := range pyclient.Releases() {
		t.Run(release.Name, func(t *testing.T) {
			t.Parallel()
			python := pyclient.Interpreter(t, release).
				Preloaded(t, "openenv.cli.__main__", "openenv.core.mcp_client", "openenv.core.generic_client", "openapi_spec_validator")

			runPython := func(t *testing.T, script string, args ...string) {
				python.Run(t, filepath.Join("testdata", "py", script), args...)
			}
			for _, script := range []string{"tool_client.py", "generic_client.py", "production_client.py", "sync_client.py", "standard_client.py", "session_sharing.py", "engine_away.py"} {
				t.Run(script, func(t *testing.T) {
					// most scripts ask for the agent that a real server starts faster
					agents := []string{rollout.AgentOpencode, rollout.AgentReact}

					runPython(t, script, start(t, func(o *envserver.Options) { o.Agents = agents }).url)
				})
			}

			t.Run("capacity.py", func(t *testing.T) {
				r := start(t, func(o *envserver.Options) { o.MaxSessions = 1 })
				runPython(t, "capacity.py", r.url)
			})
			t.Run("step_limit.py", func(t *testing.T) {
				r := start(t, func(o *envserver.Options) { o.StepTimeout = 4 * time.Second })
				runPython(t, "step_limit.py", r.url)
			})
			t.Run("patience.py", func(t *testing.T) {
				standard := start(t, func(o *envserver.Options) { o.GiveUp = 0 })
				quick := start(t, func(o *envserver.Options) { o.GiveUp, o.PingInterval = 0, 200*time.Millisecond })
				runPython(t, "patience.py", standard.url, quick.url)
			})
			t.Run("tokens.py", func(t *testing.T) {
				r := start(
					t,
					func(o *envserver.Options) { o.Tokens = []envserver.Token{envserver.PlainToken("0123456789abcdef")} },
				)
				runPython(t, "tokens.py", r.url)
			})
			t.Run("validate_token.py", func(t *testing.T) {
				r := start(
					t,
					func(o *envserver.Options) { o.Tokens = []envserver.Token{envserver.PlainToken("0123456789abcdef")} },
				)
				runPython(t, "validate_token.py", r.url, "0123456789abcdef")
			})
			t.Run("large_result.py", func(t *testing.T) {
				r := start(t)
				r.fake.turns = largeTurns(200, 30_000)
				runPython(t, "large_result.py", r.url)
			})

			for _, mode := range []envserver.Mode{envserver.Simulation, envserver.Production} {
				t.Run("validate.py "+string(mode), func(t *testing.T) {
					r := start(t, func(o *envserver.Options) { o.Mode = mode })
					runPython(t, "validate.py", r.url, string(mode))
					runPython(t, "openapi.py", r.url)
				})
			}
		})
	}
}

// TestSecondMCPClient runs version 2 of the Python MCP client, which openenv does not use yet.
func TestSecondMCPClient(t *testing.T) {
	t.Parallel()
	pyclient.Interpreter(t, pyclient.MCP2()).Run(t, filepath.Join("testdata", "py", "mcp2_client.py"), start(t).url)
}

// largeTurns returns model calls of a rollout whose prompts grow up to the given number of tokens, with 100
// tokens in each reply.
func largeTurns(calls, tokens int) []rollout.CompactTurn {
	ids, logprobs := make([]int32, tokens), make([]float64, 100)
	names := make([]string, len(logprobs))

	for i := range ids {
		ids[i] = int32(100_000 + i%50_000)
	}

	for i := range logprobs {
		logprobs[i], names[i] = -float64(i+1)/4096, " token"
	}

	var all []rollout.CompactTurn
	for i := range calls {
		all = append(all, rollout.CompactTurn{
			Turn:               i + 1,
			Kind:               rollout.KindAgent,
			Train:              true,
			PromptTokenIDs:     ids[:tokens*(i+1)/calls],
			CompletionTokens:   names,
			CompletionTokenIDs: ids[:len(logprobs)],
			PerTokenLogps:      logprobs,
			FinishReason:       "tool_calls",
			Request:            map[string]any{},
			Response:           map[string]any{},
		})
	}

	return all
}
