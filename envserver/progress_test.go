package envserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

// An MCP client that asks for progress gets notifications during a long call, and then the result.
func TestProgressOfALongCall(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.PingInterval = time.Millisecond })
	notes := make(chan *mcp.ProgressNotificationParams, 1000)
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
			select {
			case notes <- n.Params:
			default: // enough have arrived
			}
		},
	})
	s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.url + "/mcp"}, nil)
	require.NoError(t, err)

	defer s.Close()

	params := &mcp.CallToolParams{Name: "run_rollout", Arguments: task("r", waits)}
	params.SetProgressToken("mine")

	done := make(chan *mcp.CallToolResult, 1)

	go func() {
		res, err := s.CallTool(t.Context(), params)
		if err != nil {
			res = &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}
		}

		done <- res
	}()

	last := -1.0

	for range 3 {
		note := <-notes
		require.Equal(t, "mine", note.ProgressToken)
		require.Greater(t, note.Progress, last, "it grows")
		last = note.Progress
	}

	r.started("r")
	r.fake.finish("r")

	res := <-done
	text := res.Content[0].(*mcp.TextContent).Text
	require.False(t, res.IsError, text)
	require.Equal(t, "completed", object(t, text)["outcome"])
}
