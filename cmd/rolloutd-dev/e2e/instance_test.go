package e2e

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

// instance is a running rolloutd of one or more processes, as an operator reaches it: its server, Temporal
// and its data folder.
type instance struct {
	// OpenEnv server
	url string

	// gRPC address
	temporal string
	data     string
}

func (d instance) client(t testing.TB) client.Client {
	t.Helper()

	c, err := client.Dial(client.Options{HostPort: d.temporal})
	require.NoError(t, err)
	t.Cleanup(c.Close)

	return c
}

// events are those of a rollout's history.
func (d instance) events(t testing.TB, id string) iter.Seq[*historypb.HistoryEvent] {
	t.Helper()

	events := d.client(t).
		GetWorkflowHistory(t.Context(), rollout.WorkflowID(id), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)

	return func(yield func(*historypb.HistoryEvent) bool) {
		for events.HasNext() {
			e, err := events.Next()
			require.NoError(t, err)

			if !yield(e) {
				return
			}
		}
	}
}

// activityNames returns the names of the activities in a rollout's history, in the order in which they were scheduled.
func (d instance) activityNames(t testing.TB, id string) []string {
	t.Helper()

	var names []string

	for e := range d.events(t, id) {
		if s := e.GetActivityTaskScheduledEventAttributes(); s != nil {
			names = append(names, s.GetActivityType().GetName())
		}
	}

	return names
}

// buildIDs returns the build ids of the workers that have run a rollout's workflow.
func (d instance) buildIDs(t testing.TB, id string) []string {
	t.Helper()

	var ids []string

	for e := range d.events(t, id) {
		if a := e.GetWorkflowTaskCompletedEventAttributes(); a != nil {
			//nolint:staticcheck // what follows it has no build id of workers without a deployment
			ids = append(ids, a.GetWorkerVersion().GetBuildId())
		}
	}

	slices.Sort(ids)

	return slices.Compact(ids)
}

// missedHeartbeats returns the event ids of a rollout's activities that were retried after a heartbeat timeout.
func (d instance) missedHeartbeats(t testing.TB, id string) []int64 {
	t.Helper()

	var missed []int64

	for e := range d.events(t, id) {
		s := e.GetActivityTaskStartedEventAttributes()
		if s.GetLastFailure().GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT {
			missed = append(missed, s.GetScheduledEventId())
		}
	}

	return missed
}

// requireTakenOver checks that the next worker took over at once, without a heartbeat timeout. It checks
// nothing if the worker was away for three seconds or longer, since a heartbeat may then time out before
// the worker has started.
func (d instance) requireTakenOver(t testing.TB, id string, away time.Duration) {
	t.Helper()

	if missed := d.missedHeartbeats(t, id); away < 3*time.Second {
		require.Empty(t, missed, "the next worker takes over at once")
	}
}

// history returns a rollout's history and Temporal's description of its pending activities. raw is as
// stored, and plain has all payloads decrypted.
func (d instance) history(t testing.TB, id string) (raw, plain []byte) {
	t.Helper()

	key, err := seal.LoadOrCreate(filepath.Join(d.data, "key"))
	require.NoError(t, err)

	take := func(m proto.Message) {
		stored, err := proto.Marshal(m)
		require.NoError(t, err)

		raw = append(raw, stored...)

		require.NoError(t, proxy.VisitPayloads(t.Context(), m, proxy.VisitPayloadsOptions{
			Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
				opened, err := decodePayloads(temporalx.Codecs(key), payloads)
				for _, p := range opened {
					plain = append(append(plain, p.GetData()...), '\n')
				}

				return opened, err
			},
		}))
	}
	c := d.client(t)
	about, err := c.DescribeWorkflowExecution(t.Context(), rollout.WorkflowID(id), "")
	require.NoError(t, err)
	take(about)

	for e := range d.events(t, id) {
		take(e)
	}

	return raw, plain
}

func decodePayloads(codecs []converter.PayloadCodec, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for _, c := range codecs {
		var err error
		if payloads, err = c.Decode(payloads); err != nil {
			return nil, err
		}
	}

	return payloads, nil
}

// workflows returns the ids of all rollout workflows, open and closed.
func (d instance) workflows(t testing.TB) []string {
	t.Helper()
	list, err := d.client(t).ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Query: "WorkflowType = '" + rollout.WorkflowName + "'",
	})
	require.NoError(t, err)

	var ids []string
	for _, e := range list.GetExecutions() {
		ids = append(ids, e.GetExecution().GetWorkflowId())
	}

	return ids
}

// sandboxes returns the control sockets of the sandboxes in the data folder, without those of warm sandboxes.
func (d instance) sandboxes(t testing.TB) []string {
	t.Helper()

	files, err := filepath.Glob(filepath.Join(d.data, "sandboxes", "*", "control.sock"))
	require.NoError(t, err)

	return slices.DeleteFunc(files, func(file string) bool { return strings.Contains(file, "/sandboxes/warm-") })
}

// everyFile calls look for each regular file below dir.
func everyFile(t testing.TB, dir string, look func(path string, text []byte)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir && errors.Is(err, fs.ErrNotExist) {
			// a sandbox was closed during the walk
			return nil
		}

		if err != nil || !d.Type().IsRegular() {
			return err
		}

		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}

		look(path, text)

		return err
	}))
}

// agentStarts returns how often the process of the agent has started, according to its log.
func (d instance) agentStarts(t testing.TB, result rollout.Result) int {
	t.Helper()

	log, err := os.ReadFile(filepath.Join(d.data, "store", result.Links["opencode"]))
	require.NoError(t, err, "links: %v", result.Links)

	return strings.Count(string(log), "opencode server listening")
}
