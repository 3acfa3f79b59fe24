package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// deployment is the name of the worker deployment of these tests.
const deployment = "rolloutd"

// buildAs builds rolloutd with the version and returns the name of the binary in bin.
func buildAs(t *testing.T, version string) string {
	t.Helper()

	name := "rolloutd-" + version
	flags := "-X github.com/rolloutd/rolloutd/internal/daemon.Version=" + version
	cmd := exec.CommandContext(
		t.Context(),
		"go",
		"build",
		"-ldflags",
		flags,
		"-o",
		filepath.Join(bin, name),
		"./cmd/rolloutd",
	)
	cmd.Dir = "../../.."
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	return name
}

// makeCurrent makes a build the current version, on which new workflows begin. It retries until Temporal
// has registered the build, and waits until all task queues have the new version.
func makeCurrent(t *testing.T, c client.Client, build string) {
	t.Helper()

	var err error
	require.Eventually(t, func() bool {
		_, err = c.WorkerDeploymentClient().
			GetHandle(deployment).
			SetCurrentVersion(t.Context(), client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build})

		return err == nil
	}, 5*time.Minute, 200*time.Millisecond, "build %s: %v", build, err)
	require.Eventually(t, func() bool {
		about, err := c.WorkflowService().
			DescribeWorkerDeployment(t.Context(), &workflowservice.DescribeWorkerDeploymentRequest{
				Namespace: client.DefaultNamespace, DeploymentName: deployment,
			})

		return err == nil &&
			about.GetWorkerDeploymentInfo().
				GetRoutingConfigUpdateState() ==
				enumspb.ROUTING_CONFIG_UPDATE_STATE_COMPLETED
	}, 5*time.Minute, 200*time.Millisecond, "build %s is not current in all task queues", build)
}

// buildOf returns the build that runs the workflow of a rollout.
func buildOf(t *testing.T, c client.Client, id string) string {
	t.Helper()
	d, err := c.DescribeWorkflowExecution(t.Context(), rollout.WorkflowID(id), "")
	require.NoError(t, err)

	version := d.GetWorkflowExecutionInfo().GetVersioningInfo().GetDeploymentVersion()
	require.Equal(t, deployment, version.GetDeploymentName())

	return version.GetBuildId()
}

// runningOn returns the number of running workflows of a build.
func runningOn(t *testing.T, c client.Client, build string) int64 {
	t.Helper()
	n, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
		Query: "ExecutionStatus = 'Running' AND TemporalWorkerDeploymentVersion = '" + deployment + ":" + build + "'",
	})
	require.NoError(t, err)

	return n.GetCount()
}

// A rollout stays on the build on which it began. After the next build becomes current, new rollouts begin
// on it and the old host drains. The old build is stopped when it has no running workflow.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	next := buildAs(t, "next")
	model := startModel(t, "")
	a := startFourProcesses(t, fourProcessesOptions{modelURL: model.url, env: []string{
		"ROLLOUTD_STORE_URL=" + t.TempDir(),
		"ROLLOUTD_ENCRYPTION_KEY=" + strings.Repeat("1f", 32),
		"ROLLOUTD_WORKER_DEPLOYMENT=" + deployment,
	}})
	c := a.client(t)
	// the version of a build that sets none
	makeCurrent(t, c, "dev")

	old := player{a.url, "old"}
	begun, err := old.post("/reset", args{"instruction": "count", "verify": []string{`test "$(cat log)" = a`}})
	require.NoError(t, err)

	first := begun.Observation.RolloutID

	require.Empty(t, old.mustBash(t, "1", "echo a > log"))
	require.Equal(t, "dev", buildOf(t, c, first))

	nextHost := startNextHost(t, a, next)
	makeCurrent(t, c, "next")

	oldHost, err := os.ReadFile(filepath.Join(a.data, "host_id"))
	require.NoError(t, err)
	hosts := &cluster{t: t}
	hosts.drain(a.url, strings.TrimSpace(string(oldHost)), "drain", fleet.Draining)
	second := start(t, a.url, args{
		"instruction": "nothing",
		"agent":       "nop",
		"endpoint":    "scripted",
		"verify":      []string{"true"},
	})
	result := finalize(t, a.url, second)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.Equal(t, nextHost, result.Attempts[0].Host)
	require.Equal(t, "next", buildOf(t, c, second))

	graded, err := old.post("/step", args{"action": args{"tool_name": "submit"}})
	require.NoError(t, err)
	require.NotNil(t, graded.Reward, "%+v", graded.Observation)
	require.InDelta(t, 1.0, *graded.Reward, 0)
	require.Len(t, finalize(t, a.url, first).Attempts, 1)
	require.Equal(t, "dev", buildOf(t, c, first))
	require.Eventually(
		t,
		func() bool { return runningOn(t, c, "dev") == 0 },
		5*time.Minute,
		200*time.Millisecond,
		"the old build has workflows",
	)
	hosts.await(a.url, strings.TrimSpace(string(oldHost)), inState(fleet.Drained))
	a.roles["worker"].stop(t)
	third := finalize(t, a.url, start(t, a.url, args{
		"instruction": "nothing",
		"agent":       "nop",
		"endpoint":    "scripted",
		"verify":      []string{"true"},
	}))
	require.Equal(t, rollout.Completed, third.Outcome, deref(third.Error))
}

// startNextHost starts a gateway and a worker of the binary on a new data folder, and returns the host's name.
func startNextHost(t *testing.T, a *fourProcesses, binary string) string {
	t.Helper()
	p, data := freePorts(t, 3), dataFolder(t)
	gateway := &role{
		binary: binary,
		health: "http://" + p[1] + "/healthz",
		args:   []string{"gateway", "--data", data, "--verbose", "--listen", p[0]},
		env:    append([]string{"ROLLOUTD_METRICS_LISTEN=" + p[1]}, withoutMetrics(a.roles["gateway"].env)...),
	}

	worker := &role{
		binary: binary,
		health: "http://" + p[2] + "/healthz",
		args:   []string{"worker", "--data", data, "--verbose", "--gateway", "http://" + p[0]},
		env:    append([]string{"ROLLOUTD_METRICS_LISTEN=" + p[2]}, withoutMetrics(a.roles["worker"].env)...),
	}
	for _, r := range []*role{gateway, worker} {
		r.process = startProcess(t, r.env, r.binary, r.args...)
		r.ready(t, r.health)
	}

	id, err := os.ReadFile(filepath.Join(data, "host_id"))
	require.NoError(t, err)

	return strings.TrimSpace(string(id))
}

// withoutMetrics returns the environment without the address of the metrics, since another process needs
// another address.
func withoutMetrics(env []string) (rest []string) {
	for _, pair := range env {
		if !strings.HasPrefix(pair, "ROLLOUTD_METRICS_LISTEN=") {
			rest = append(rest, pair)
		}
	}

	return rest
}
