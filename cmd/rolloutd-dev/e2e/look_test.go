package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/rollout"
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
