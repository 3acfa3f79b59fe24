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

// startTime is the same for the start of a workflow. The next try follows at about seven seconds,
// and is the last one: a restart of Temporal takes some.
const startTime = 5 * time.Second

// limitKey is the key of a context for the time after which no try of a call of Prompt is followed by another.
type limitKey struct{}

// Prompt is a client of Dial for calls that a person may wait for. Without a connection to Temporal its reads fail after
// about three seconds and its starts after about seven, with the reason. Other calls wait for ten, and give none.
type Prompt struct{ client.Client }

// ExecuteWorkflow starts a workflow.
func (p Prompt) ExecuteWorkflow(
	ctx context.Context,
	options client.StartWorkflowOptions,
	workflow any,
	args ...any,
) (client.WorkflowRun, error) {
	return p.Client.ExecuteWorkflow(within(ctx, startTime), options, workflow, args...)
}

// DescribeWorkflowExecution describes a workflow.
func (p Prompt) DescribeWorkflowExecution(
	ctx context.Context,
	workflowID, runID string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return p.Client.DescribeWorkflowExecution(within(ctx, promptTime), workflowID, runID)
}

// ListWorkflow lists workflows.
func (p Prompt) ListWorkflow(
	ctx context.Context,
	request *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return p.Client.ListWorkflow(within(ctx, promptTime), request)
}

// CountWorkflow counts workflows.
func (p Prompt) CountWorkflow(
	ctx context.Context,
	request *workflowservice.CountWorkflowExecutionsRequest,
) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	return p.Client.CountWorkflow(within(ctx, promptTime), request)
}

func within(ctx context.Context, patience time.Duration) context.Context {
	return context.WithValue(ctx, limitKey{}, time.Now().Add(patience))
}

// endPrompt is the innermost interceptor of a connection. It ends the retries of a call of Prompt, by a code that the SDK
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

	limit, ok := ctx.Value(limitKey{}).(time.Time)
	if !ok || status.Code(err) != codes.Unavailable || conn.GetState() == connectivity.Ready {
		return err
	}

	conn.ResetConnectBackoff()

	if time.Now().Before(limit) {
		return err
	}

	return status.Error(codes.DeadlineExceeded, status.Convert(err).Message())
}
