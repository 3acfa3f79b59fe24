package opencode_test

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/scripted"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// The real OpenCode ignores comments and uses a reply that is passed through. When an error event reports a
// break in the middle of a reply, OpenCode ends at once and does not retry.
func TestOpencodeEndsAfterABrokenReply(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("needs the real OpenCode, a download of 60 MB")
	}

	three := 3
	model := newRecorder(scripted.Scripts{{Name: "main", Turns: []scripted.Turn{
		{
			Text: "I look.",
			ToolCalls: []scripted.ToolCall{{
				Name:      "bash",
				Arguments: map[string]any{"command": "echo seen > seen.txt", "description": "Looks"},
			}},
		},
		{
			Text:   "This will be broken off in the middle of what is said",
			Faults: []scripted.Fault{{Times: 9, CutAfter: &three}},
		},
	}}})
	upstream := httptest.NewServer(model)
	t.Cleanup(upstream.Close)
	box, gate := passedThrough(t, upstream.URL)
	st, err := box.Wait(t.Context(), "agent-1", agenttest.Patience)
	require.NoError(t, err)
	require.False(t, st.Running)
	out, err := box.Tail(t.Context(), st, "stdout", 1<<20)
	require.NoError(t, err)
	require.Equal(t, 1, st.ExitCode, "%s", out)
	require.Contains(t, string(out), "endpoint's reply broke off")
	require.Contains(t, string(out), `"reason":"tool-calls"`, "the first reply was used")
	require.Len(t, model.exchanges(), 2, "it did not ask again")
	status, err := gate.Status(t.Context(), box.ID())
	require.NoError(t, err)
	require.Equal(t, 1, status.Turns)
	require.NotNil(t, status.Failure)
}

// passedThrough starts an OpenCode behind a gateway that passes replies through and sends keep-alive comments.
func passedThrough(t *testing.T, upstream string) (*sandbox.Sandbox, *gatewayapi.Client) {
	t.Helper()
	dir, agents, id := t.TempDir(), agentsDir(t), t.Name()+".1"
	b := binary.New(binary.Options{AgentsDir: agents})
	kit := opencode.New(opencode.Options{Binary: b})
	_, err := b.Fetch(t.Context())
	require.NoError(t, err)
	d, err := local.New(local.Options{
		Dir:          filepath.Join(dir, "sandboxes"),
		AgentsDir:    agents,
		SandboxdPath: sandboxdPath,
	})
	require.NoError(t, err)

	backend := sandbox.New(d, sandbox.Options{})
	box, err := backend.Create(t.Context(), id, rollout.Sandbox{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, backend.Destroy(context.WithoutCancel(t.Context()), id)) })
	client := passingGateway(t, dir, backend)
	require.NoError(t, client.Open(t.Context(), gatewayapi.Route{
		ID: id, RolloutID: t.Name(), Attempt: 1, SandboxID: id, Capture: true, Origin: agent.Processes,
		Model:  rollout.Model{BaseURL: upstream + "/v1", Name: "scripted", Logprobs: true, TokenIDs: true},
		Limits: rollout.Limits{Call: time.Minute},
	}))

	job := agent.Job{MaxOutput: 1000}
	_, err = kit.Install(t.Context(), agent.Env{Sandbox: box})
	require.NoError(t, err)
	p, err := kit.Process(t.Context(), agent.Env{Sandbox: box}, job, "run", "--format", "json", "--auto")
	require.NoError(t, err)

	p.Stdin = []byte("look at it")
	_, err = box.Start(t.Context(), "agent-1", p)
	require.NoError(t, err)

	return box, client
}

func passingGateway(t *testing.T, dir string, backend *sandbox.Backend) *gatewayapi.Client {
	t.Helper()

	key, err := seal.LoadOrCreate(filepath.Join(dir, "key"))
	require.NoError(t, err)
	laptop, err := egress.Parse([]string{"127.0.0.0/8", "localhost"})
	require.NoError(t, err)
	srv, err := gateway.New(gateway.Options{
		Egress:      laptop,
		Dir:         filepath.Join(dir, "gateway"),
		Key:         key,
		Dialer:      backend,
		PassThrough: true,
		KeepAlive:   10 * time.Millisecond,
	})
	require.NoError(t, err)

	ctx, stop := context.WithCancel(context.Background())

	over := make(chan error, 1)
	go func() { over <- srv.Run(ctx) }()

	api := gatewaytest.NewServer(admin.New(srv, admin.Options{Key: key}).Handler())

	t.Cleanup(func() {
		stop()
		require.NoError(t, <-over)
		api.Close()
	})

	return gatewayapi.NewClient(api.URL, key)
}
