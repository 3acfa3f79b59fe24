package e2e

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

// These look at what an operator would look at: Temporal, the data folder.

func (d *dev) client(t testing.TB) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: d.temporal})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// activityNames are the activities of a rollout's history, in the order they were scheduled.
func (d *dev) activityNames(t testing.TB, id string) []string {
	t.Helper()
	var names []string
	events := d.client(t).GetWorkflowHistory(t.Context(), rollout.WorkflowID(id), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(t, err)
		if s := e.GetActivityTaskScheduledEventAttributes(); s != nil {
			names = append(names, s.GetActivityType().GetName())
		}
	}
	return names
}

// history is a rollout's history with what Temporal tells of its open activities, as stored, and all payloads of it decrypted.
func (d *dev) history(t testing.TB, id string) (raw, plain []byte) {
	t.Helper()
	key, err := seal.LoadOrCreate(filepath.Join(d.data, "key"))
	require.NoError(t, err)
	take := func(m proto.Message) {
		stored, err := proto.Marshal(m)
		require.NoError(t, err)
		raw = append(raw, stored...)
		require.NoError(t, proxy.VisitPayloads(t.Context(), m, proxy.VisitPayloadsOptions{
			Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
				opened, err := opened(temporalx.Codecs(key), payloads)
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
	events := c.GetWorkflowHistory(t.Context(), rollout.WorkflowID(id), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(t, err)
		take(e)
	}
	return raw, plain
}

func opened(codecs []converter.PayloadCodec, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for _, c := range codecs {
		var err error
		if payloads, err = c.Decode(payloads); err != nil {
			return nil, err
		}
	}
	return payloads, nil
}

// workflows are the ids of all workflows there ever were.
func (d *dev) workflows(t testing.TB) []string {
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

// leftSandboxes lists the state folders in a data folder's sandboxes.
func leftSandboxes(t testing.TB, data string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "sandboxes", "*", "control.sock"))
	require.NoError(t, err)
	return files
}

// processesNaming lists the running processes whose command line names the folder.
func processesNaming(t testing.TB, folder string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err == nil && strings.Contains(string(text), folder) { // gone meanwhile: not running
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}

// sandboxProcesses is what the kernel tells of the processes that name the sandbox, and of all below them: command lines and
// environments.
func sandboxProcesses(t testing.TB, id string) []byte {
	t.Helper()
	command, parent := map[string][]byte{}, map[string]string{}
	folders, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, f := range folders {
		stat, err := os.ReadFile(filepath.Join(f, "stat"))
		if err != nil {
			continue // gone meanwhile
		}
		command[f], _ = os.ReadFile(filepath.Join(f, "cmdline"))
		parent[f] = "/proc/" + strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[1]
	}
	var told []byte
	for f := range command {
		for p := f; p != ""; p = parent[p] {
			if bytes.Contains(command[p], []byte(id)) {
				environ, _ := os.ReadFile(filepath.Join(f, "environ"))
				told = append(append(told, command[f]...), environ...)
				break
			}
		}
	}
	return told
}

// everyFile calls look for each regular file below dir.
func everyFile(t testing.TB, dir string, look func(path string, text []byte)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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

// agentStarts counts how often an agent process came up, by its own log.
func (d *dev) agentStarts(t testing.TB, result rollout.Result) int {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(d.data, "store", result.Links["opencode"]))
	require.NoError(t, err, "links: %v", result.Links)
	return strings.Count(string(log), "opencode server listening")
}
