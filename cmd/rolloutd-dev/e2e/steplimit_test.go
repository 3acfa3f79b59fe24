package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A call that takes longer than the server's step timeout is answered with the way to get its result, and
// the result is available later. The rollout's verifier log has the output of its commands.
func TestALongCallIsAnsweredInTime(t *testing.T) {
	t.Parallel()
	gate := startGate(t, `
- match: take ages
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "echo the-gate-is-near >> log.txt"}}]
    - text: Done.
`)
	srv := startDev(t, devOptions{modelURL: gate.url, env: []string{"ROLLOUTD_STEP_TIMEOUT=5s"}})
	late := post(
		t,
		srv.url+"/mcp",
		http.Header{"Content-Type": {"application/json"}},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_rollout",
		"arguments":{"instruction":"take ages","endpoint":"scripted","agent":"react","rollout_id":"long","verify":["cat log.txt","false"]}}}`,
	)
	require.Contains(t, late, "timed out after 5.0 seconds; rollout long goes on")
	gate.open()

	text, err := call(t.Context(), srv.url, "finalize_rollout", args{"rollout_id": "long"})
	require.NoError(t, err)
	require.Equal(t, rollout.Completed, decode[rollout.Result](t, text).Outcome)
	require.Equal(
		t,
		"$ cat log.txt\nthe-gate-is-near\nexit status 0\n$ false\nexit status 1\n",
		get(t, srv.url+"/rollouts/long/logs/verifier"),
	)
}
