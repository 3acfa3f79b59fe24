package envserver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// An MCP client that cancels a call aborts its rollout if on_disconnect is abort. Another client's call of
// the same id continues.
func TestCancelledCall(t *testing.T) {
	t.Parallel()
	// the newest version closes the stream
	for _, version := range []string{"2025-03-26", "2025-06-18", ""} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			testCancelledCall(t, version)
		})
	}
}

func testCancelledCall(t *testing.T, version string) {
	r := start(t)
	connect := func() *mcp.ClientSession {
		c, err := mcp.NewClient(&mcp.Implementation{
			Name:    "c",
			Version: "1",
		}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.url + "/mcp"},
			&mcp.ClientSessionOptions{ProtocolVersion: version})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })

		return c
	}
	one, other := connect(), connect()
	run := func(ctx context.Context, c *mcp.ClientSession, id, onDisconnect string) <-chan error {
		task := task(id, waits)
		task["on_disconnect"] = onDisconnect
		ended := make(chan error, 1)

		go func() {
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "run_rollout", Arguments: task})
			ended <- err
		}()

		require.Eventually(
			t,
			func() bool { _, there := r.fake.spec(id); return there },
			2*time.Minute,
			5*time.Millisecond,
		)

		return ended
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	aborts := run(ctx, one, "aborts", "abort")
	goesOn := run(ctx, one, "goes-on", "continue")
	others := run(t.Context(), other, "others", "abort")

	cancel(errors.New("enough"))
	require.Error(t, <-aborts)
	require.Error(t, <-goesOn)
	require.Eventually(t, func() bool { return r.fake.aborted("aborts") }, 2*time.Minute, 5*time.Millisecond)
	require.False(t, r.fake.aborted("goes-on"))
	require.False(t, r.fake.aborted("others"))
	r.fake.finish("others")
	require.NoError(t, <-others)
}
