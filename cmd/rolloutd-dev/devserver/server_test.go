package devserver_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/cmd/rolloutd-dev/devserver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// A server that starts on the data folder of a stopped server has its workflow history. The two servers use
// different ports.
func TestServerKeepsItsHistoryOverARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data with % and #")
	srv, c := serve(t, dir)
	file := filepath.Join(t.TempDir(), "steps")
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID:        "one",
		TaskQueue: queue,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword("RolloutTask").ValueSet("t1"),
		),
	}, twoSteps, file)
	require.NoError(t, err)
	require.NoError(t, c.SignalWorkflow(t.Context(), "one", "", "go", "second"))

	var word string
	require.NoError(t, run.Get(t.Context(), &word))
	require.Equal(t, "second", word)
	stop(t, srv)

	_, c = serve(t, dir)
	require.NoError(t, c.GetWorkflow(t.Context(), "one", run.GetRunID()).Get(t.Context(), &word))
	require.Equal(t, "second", word)
	desc, err := c.DescribeWorkflowExecution(t.Context(), "one", "")
	require.NoError(t, err)
	require.Contains(t, desc.WorkflowExecutionInfo.SearchAttributes.IndexedFields, "RolloutTask")
}

// Attributes that are added to an existing namespace are usable as soon as Register succeeds, for the list
// and for new workflows.
func TestRegisteredAttributesAreUsable(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	o.SearchAttributes = nil
	srv, err := devserver.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { stop(t, srv) })

	c, err := dial(srv)
	require.NoError(t, err)
	t.Cleanup(c.Close)

	for err = errors.New("not registered"); err != nil; {
		err = temporalx.Register(t.Context(), c.OperatorService(), c, namespace)
		require.True(t, err == nil || fault.Is(err, fault.Unavailable), "%v", err)
	}

	_, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue,
		TypedSearchAttributes: temporal.NewSearchAttributes(searchattr.Typed().AtStart(rollout.Spec{})...),
	}, twoSteps, "")
	require.NoError(t, err)
}

// Each write to the visibility table updates all its indexes. The server therefore drops the indexes that
// rolloutd does not use, also in a database of an earlier build. Queries by the attributes of the dropped
// indexes still work.
func TestUnusedIndexesAreDropped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv, _ := serve(t, dir)
	require.Equal(t, 14, indexesOfTheList(t, dir))
	stop(t, srv)
	db := openDatabase(t, dir)
	_, err := db.ExecContext(t.Context(), `CREATE INDEX by_int_01 ON executions_visibility (namespace_id, Int01)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, c := serve(t, dir)
	require.Equal(t, 14, indexesOfTheList(t, dir))

	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID:        "one",
		TaskQueue: queue,
	}, twoSteps, filepath.Join(dir, "steps"))
	require.NoError(t, err)

	for _, query := range []string{`WorkflowId = "one"`, `RunId = "` + run.GetRunID() + `"`, `ExecutionTime > "2020-01-01T00:00:00Z"`, `TaskQueue = "` + queue + `"`, `RolloutTask IS NULL`} {
		require.Eventually(t, func() bool {
			list, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
			return err == nil && len(list.Executions) == 1
		}, 5*time.Minute, 50*time.Millisecond, query)
	}
}

func openDatabase(t *testing.T, dir string) *sql.DB {
	t.Helper()

	db, err := sql.Open("sqlite", "file:"+devserver.DatabaseFile(dir))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })

	return db
}

func indexesOfTheList(t *testing.T, dir string) (n int) {
	t.Helper()
	row := openDatabase(
		t,
		dir,
	).QueryRowContext(t.Context(), `SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql IS NOT NULL`)
	require.NoError(t, row.Scan(&n))

	return n
}

// The server is killed with kill -9 between two steps. The next process resumes the same run and does not
// repeat the finished step.
func TestKilledServerResumesItsRun(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "steps")
	child, addr := startChild(t, dir)
	c, err := client.Dial(client.Options{HostPort: addr, Namespace: namespace, Logger: quiet()})
	require.NoError(t, err)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID:        "killed",
		TaskQueue: queue,
	}, twoSteps, file)
	require.NoError(t, err)
	awaitEvent(t, c, "killed", enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
	require.NoError(t, child.Process.Kill())
	// the error is that the process was killed
	_ = child.Wait()

	c.Close()

	_, c = serve(t, dir)
	require.NoError(t, c.SignalWorkflow(t.Context(), "killed", "", "go", "second"))

	var word string
	require.NoError(t, c.GetWorkflow(t.Context(), "killed", run.GetRunID()).Get(t.Context(), &word))
	require.Equal(t, "first\nsecond\n", lines(file))
}

// The kernel holds the lock of the data folder. A second process cannot use the folder while the first one runs.
func TestLockedFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child, _ := startChild(t, dir)
	_, err := devserver.Start(t.Context(), options(dir))

	var inUse *devserver.InUseError
	require.ErrorAs(t, err, &inUse)
	require.ErrorContains(t, err, "--data")
	require.NotEmpty(t, inUse.Owner)

	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	srv, err := devserver.Start(t.Context(), options(dir))
	require.NoError(t, err, "the lock ends with its process")
	stop(t, srv)
}

func TestNewerSchemaIsRefusedUnchanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "temporal-0.99.db"), []byte("future"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "temporal-notes.db"), nil, 0o600))
	_, err := devserver.Start(t.Context(), options(dir))

	var schema *devserver.SchemaError
	require.ErrorAs(t, err, &schema)
	require.Equal(t, "0.99", schema.Found)
	require.NoFileExists(t, devserver.DatabaseFile(dir))
}

func TestPortInUseErrorNamesTheFlag(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer l.Close()

	o := options(t.TempDir())
	o.Port = l.Addr().(*net.TCPAddr).Port
	_, err = devserver.Start(t.Context(), o)

	var port *listen.Error
	require.ErrorAs(t, err, &port)
	require.ErrorContains(t, err, "--temporal-port")

	o.Port = 0
	srv, err := devserver.Start(t.Context(), o)
	require.NoError(t, err, "a refused start must give the lock back")
	stop(t, srv)
}

// Another process may take a port after the server has chosen it and before Temporal listens on it.
func TestPortTakenAfterItWasChosen(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer l.Close()

	tries := 0
	taken := func(upTo int) devserver.Options {
		tries = 0

		return devserver.ChoosingPorts(options(t.TempDir()), func(ports *[4]int) {
			if tries++; tries <= upTo {
				// the port of another Temporal service in each attempt
				ports[tries%len(ports)] = l.Addr().(*net.TCPAddr).Port
			}
		})
	}
	// another process may take a port in one more attempt
	srv, err := devserver.Start(t.Context(), taken(3))
	require.NoError(t, err)
	require.GreaterOrEqual(t, tries, 4)

	c, err := dial(srv)
	require.NoError(t, err)
	c.Close()
	stop(t, srv)

	_, err = devserver.Start(t.Context(), taken(1000))
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.Equal(t, 5, tries, "it gives up")
}

// Servers that start at the same time choose different ports, before any of them listens on its own.
func TestPortsOfManyServersDiffer(t *testing.T) {
	t.Parallel()

	chosen := map[int]bool{}

	for range 200 {
		ports, block, err := devserver.FreePorts()
		require.NoError(t, err)

		defer block.Close()

		for _, port := range ports[1:] {
			require.False(t, chosen[port], "%d is chosen twice", port)

			chosen[port] = true
		}
	}
}

// serve starts a server with a worker. Both stop when the test ends.
func serve(t *testing.T, dir string) (*devserver.Server, client.Client) {
	t.Helper()
	srv, err := devserver.Start(t.Context(), options(dir))
	require.NoError(t, err)
	t.Cleanup(func() { stop(t, srv) })

	c, err := dial(srv)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w := newWorker(c)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	return srv, c
}

func stop(t *testing.T, srv *devserver.Server) {
	t.Helper()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	defer cancel()

	require.NoError(t, srv.Stop(ctx))
}

func startChild(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])

	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	// both fail if the test has already killed the child
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	in := bufio.NewScanner(out)
	require.True(t, in.Scan(), "the child says its address")

	return cmd, in.Text()
}

// awaitEvent waits until the workflow's history has an event of the type. An activity can have its effect
// before the history records its completion.
func awaitEvent(t *testing.T, c client.Client, id string, want enumspb.EventType) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	for events := c.GetWorkflowHistory(ctx, id, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		e, err := events.Next()
		require.NoError(t, err)

		if e.GetEventType() == want {
			return
		}
	}

	require.FailNow(t, "the workflow ended without the event", want)
}

func lines(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}

	return string(text)
}

// A retention applies to a namespace that exists, and stays when none is given.
func TestRetention(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	for _, step := range []struct{ set, want time.Duration }{
		{0, devserver.DefaultRetention}, {48 * time.Hour, 48 * time.Hour}, {0, 48 * time.Hour},
	} {
		o := options(dir)
		o.Retention = step.set
		srv, err := devserver.Start(t.Context(), o)
		require.NoError(t, err)

		c, err := client.NewNamespaceClient(client.Options{HostPort: srv.Address(), Logger: quiet()})
		require.NoError(t, err)

		got, err := c.Describe(t.Context(), namespace)
		require.NoError(t, err)
		require.Equal(t, step.want, got.Config.WorkflowExecutionRetentionTtl.AsDuration())
		c.Close()
		stop(t, srv)
	}

	o := options(dir)
	o.Retention = time.Second
	_, err := devserver.Start(t.Context(), o)
	require.ErrorContains(t, err, "set the retention to 1s")
}
