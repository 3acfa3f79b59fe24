package temporalx

import (
	"context"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// promptTime is how long a read of Prompt waits for a connection; the next try of the SDK, which follows at about three
// seconds, is the last one. The ten seconds of the SDK would pass several times in a command that reads several times, and
// their error has no reason.
const promptTime = 2 * time.Second

// begunKey is the key of a context for the time at which a read of Prompt began.
type begunKey struct{}

// Prompt is a client of Dial whose reads fail with the reason after about three seconds without a connection to Temporal: a
// person may wait for them. Other calls, such as the one that starts a workflow, wait for ten.
type Prompt struct{ client.Client }

// DescribeWorkflowExecution describes a workflow.
func (p Prompt) DescribeWorkflowExecution(
	ctx context.Context,
	workflowID, runID string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return p.Client.DescribeWorkflowExecution(prompt(ctx), workflowID, runID)
}

// ListWorkflow lists workflows.
func (p Prompt) ListWorkflow(
	ctx context.Context,
	request *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return p.Client.ListWorkflow(prompt(ctx), request)
}

// CountWorkflow counts workflows.
func (p Prompt) CountWorkflow(
	ctx context.Context,
	request *workflowservice.CountWorkflowExecutionsRequest,
) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	return p.Client.CountWorkflow(prompt(ctx), request)
}

func prompt(ctx context.Context) context.Context {
	return context.WithValue(ctx, begunKey{}, time.Now())
}

// endPrompt is the innermost interceptor of a connection. It ends the retries of a read of Prompt, by a code that the SDK
// does not retry, and lets each try connect at once instead of after gRPC's delay.
func endPrompt(
	ctx context.Context,
	method string,
	req, reply any,
	conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	err := invoke(ctx, method, req, reply, conn, opts...)

	begun, ok := ctx.Value(begunKey{}).(time.Time)
	if !ok || status.Code(err) != codes.Unavailable || conn.GetState() == connectivity.Ready {
		return err
	}

	conn.ResetConnectBackoff()

	if time.Since(begun) < promptTime {
		return err
	}

	return status.Error(codes.DeadlineExceeded, status.Convert(err).Message())
}
