package host_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// fakeHost is a fake of a host's sandboxes, its gateway's routes and the workflows that may own them.
type fakeHost struct {
	mu        sync.Mutex
	infos     []driver.Info
	workflows map[string]*client.WorkflowExecutionDescription

	// workflow that cannot be described
	failing string

	// of a backend that does not answer
	away  error
	lists int

	// open routes
	open []string

	// closed routes
	routes []string
}

func (y *fakeHost) Routes(context.Context) ([]string, error) { return y.open, nil }

func (y *fakeHost) List(context.Context) ([]driver.Info, error) {
	y.mu.Lock()
	defer y.mu.Unlock()

	y.lists++

	return slices.Clone(y.infos), y.away
}

func (y *fakeHost) Destroy(_ context.Context, id string) error {
	y.mu.Lock()
	defer y.mu.Unlock()

	y.infos = slices.DeleteFunc(y.infos, func(i driver.Info) bool { return i.ID == id })

	return nil
}

func (y *fakeHost) Close(_ context.Context, id string) error {
	y.routes = append(y.routes, id)
	return nil
}

func (y *fakeHost) DescribeWorkflow(_ context.Context, id, _ string) (*client.WorkflowExecutionDescription, error) {
	if id == y.failing {
		return nil, serviceerror.NewUnavailable("down")
	}

	if d, ok := y.workflows[id]; ok {
		return d, nil
	}

	return nil, serviceerror.NewNotFound("no such workflow")
}

func description(status enumspb.WorkflowExecutionStatus, sandbox string) *client.WorkflowExecutionDescription {
	d := &client.WorkflowExecutionDescription{}

	d.Status = status
	if sandbox != "" {
		d.TypedSearchAttributes = temporal.NewSearchAttributes(searchattr.Typed().Sandbox.ValueSet(sandbox))
	}

	return d
}

func (y *fakeHost) add(id, rollout, purpose string, age time.Duration) {
	y.infos = append(y.infos, driver.Info{
		ID:        id,
		CreatedAt: time.Now().Add(-age),
		Labels:    map[string]string{driver.LabelRollout: rollout, driver.LabelPurpose: purpose},
	})
}

func (y *fakeHost) janitor() *host.Janitor {
	return &host.Janitor{
		Sandboxes: y,
		Workflows: y,
		Routes:    y,
		Grace:     10 * time.Minute,
		Every:     time.Minute,
		Logger:    slog.New(slog.DiscardHandler),
	}
}

// The janitor removes only what no open workflow owns.
func TestSweep(t *testing.T) {
	t.Parallel()

	const running, closed = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED

	y := &fakeHost{failing: "rollout-unsure", workflows: map[string]*client.WorkflowExecutionDescription{
		"rollout-open":   description(running, "open.2"),
		"rollout-new":    description(running, ""),
		"rollout-closed": description(closed, "closed.1"),
	}}
	y.add("open.2", "open", "agent", time.Hour)
	y.add("open.2.v", "open", "verifier", time.Hour)
	// of a later attempt, which the workflow has not recorded
	y.add("open.10", "open", "agent", time.Hour)
	y.add("new.1", "new", "agent", time.Hour)
	y.add("unsure.1", "unsure", "agent", time.Hour)
	y.add("young.1", "young", "agent", 9*time.Minute)
	y.add("foreign", "", "", time.Hour)
	kept := len(y.infos)
	// of an earlier attempt
	y.add("open.1", "open", "agent", time.Hour)
	y.add("open.1.v", "open", "verifier", time.Hour)
	y.add("closed.1", "closed", "agent", time.Hour)
	y.add("closed.1.v", "closed", "verifier", time.Hour)
	y.add("never.1", "never", "agent", time.Hour)

	destroyed, err := y.janitor().Sweep(t.Context())
	require.Error(t, err, "it returns what it could not decide")
	require.Equal(t, []string{"open.1", "open.1.v", "closed.1", "closed.1.v", "never.1"}, destroyed)
	require.Len(t, y.infos, kept)
	require.Equal(t, []string{"open.1", "closed.1", "never.1"}, y.routes, "the verifier's has none")
}

// A backend that does not answer keeps the janitor from no sandbox of another one.
func TestSweepWhileABackendIsAway(t *testing.T) {
	t.Parallel()

	y := &fakeHost{away: errors.New("no daemon")}
	y.add("never.1", "never", "agent", time.Hour)
	destroyed, err := y.janitor().Sweep(t.Context())
	require.ErrorContains(t, err, "no daemon")
	require.Equal(t, []string{"never.1"}, destroyed)
}

// A route whose sandbox ended by itself is closed once its workflow has closed or runs a later attempt.
func TestSweepRoutes(t *testing.T) {
	t.Parallel()

	y := &fakeHost{failing: "rollout-unsure", workflows: map[string]*client.WorkflowExecutionDescription{
		"rollout-open":   description(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, "open.2"),
		"rollout-new":    description(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, ""),
		"rollout-closed": description(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, "closed.1"),
	}}
	y.open = []string{"open.1", "open.2", "open.3", "new.1", "closed.1", "never.1", "unsure.1"}
	_, err := y.janitor().Sweep(t.Context())
	require.Error(t, err, "it returns what it could not decide")
	require.Equal(t, []string{"open.1", "closed.1", "never.1"}, y.routes)
}

// If a route cannot be closed, its sandbox stays listed, so that the next sweep finds it again.
func TestSweepAgainAfterAFailedClose(t *testing.T) {
	t.Parallel()

	y := &fakeHost{}
	y.add("never.1", "never", "agent", time.Hour)
	j := y.janitor()
	j.Routes = noRoutes{}
	destroyed, err := j.Sweep(t.Context())
	require.Error(t, err)
	require.Empty(t, destroyed)
	require.Len(t, y.infos, 1)
}

type noRoutes struct{}

func (noRoutes) Routes(context.Context) ([]string, error) { return nil, nil }

func (noRoutes) Close(context.Context, string) error { return errors.New("connection refused") }

func TestJanitorSweepsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := &fakeHost{}
		ctx, cancel := context.WithCancel(t.Context())

		stopped := make(chan struct{})
		go func() { defer close(stopped); y.janitor().Run(ctx) }()
		// fake time
		time.Sleep(150 * time.Second)
		cancel()
		<-stopped
		require.Equal(t, 3, y.lists, "at once, and each minute")
	})
}
