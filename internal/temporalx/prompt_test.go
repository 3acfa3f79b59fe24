package temporalx_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/rolloutd/rolloutd/internal/temporalx"
)

// A call of a Temporal that is away fails with the reason, and not at the end of the SDK's retries, which have none.
func TestPromptCallsSayWhyTemporalIsAway(t *testing.T) {
	t.Parallel()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, workflowservice.UnimplementedWorkflowServiceServer{})

	go func() { _ = server.Serve(listener) }()

	c, err := temporalx.Dial(t.Context(), temporalx.Options{Key: testKey(t, "a"), Address: listener.Addr().String()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	server.Stop()

	calls := map[string]func() error{
		"describe": func() error {
			_, err := temporalx.Prompt{Client: c}.DescribeWorkflowExecution(t.Context(), "w", "")
			return err
		},
		"list": func() error {
			_, err := temporalx.Prompt{Client: c}.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{})
			return err
		},
		"count": func() error {
			_, err := temporalx.Prompt{Client: c}.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{})
			return err
		},
		"start": func() error {
			_, err := temporalx.Prompt{Client: c}.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "q"}, "w")
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := call()

			var late *serviceerror.DeadlineExceeded
			require.ErrorAs(t, err, &late)
			require.ErrorContains(t, err, "connection refused")
		})
	}
}
