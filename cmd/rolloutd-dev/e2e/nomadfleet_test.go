package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/store/s3test"
)

const nomadJob = "hosts"

// nomadFleet is a deployment whose hosts are a pool on a real Nomad.
type nomadFleet struct {
	t     *testing.T
	nomad *nomadAgent

	// of the server
	url    string
	server *role
	model  *model
	bucket *s3test.Server
	env    []string
	config string

	// data folders of the roles that are not hosts
	data []string
	logs []string

	// the number of episodes begun
	n int
}

// nomadFleetOptions are a test's changes to its fleet.
type nomadFleetOptions struct {
	nomad nomadOptions

	// environment of the server
	serve []string

	// settings of the pool
	pool map[string]any

	// environment of the hosts
	env map[string]any

	// additional sections of the server's configuration
	config map[string]any

	// script of the model; empty: the demo's
	script string
}

func startNomadFleet(t *testing.T, o nomadFleetOptions) *nomadFleet {
	t.Helper()
	f := &nomadFleet{
		t:      t,
		nomad:  startNomad(t, o.nomad),
		model:  startModel(t, o.script),
		bucket: s3test.Start(t),
		config: filepath.Join(t.TempDir(), "rolloutd.yaml"),
	}
	t.Cleanup(func() { f.nomad.purge(t, nomadJob) })
	p := freePorts(t, 4)
	temporal := &role{binary: "rolloutd-dev", health: "http://" + p[1] + "/healthz", args: []string{
		"temporal", "--data", f.folder(), "--temporal-port", portOf(t, p[0]), "--ui-port", portOf(t, p[1]),
	}}
	f.start(temporal)

	key := strings.Repeat("1f", 32)
	secrets := map[string]string{"ROLLOUTD_ENCRYPTION_KEY": key}

	for _, pair := range s3test.Env() {
		name, value, _ := strings.Cut(pair, "=")
		secrets[name] = value
	}

	_, _, err := f.nomad.client.Variables().Create(&api.Variable{Path: "nomad/jobs/" + nomadJob, Items: secrets}, nil)
	require.NoError(t, err)

	env := map[string]any{
		"TEMPORAL_ADDRESS":            p[0],
		"ROLLOUTD_STORE_URL":          f.bucket.URL(s3test.Bucket),
		"ROLLOUTD_AGENTS_DIR":         agents,
		"ROLLOUTD_SANDBOX_WARM":       "0",
		"ROLLOUTD_SANDBOX_MEMORY_MIB": "256",
		"SCRIPTED_URL":                f.model.url,
	}
	maps.Copy(env, o.env)
	settings := map[string]any{
		"nomad_address":       f.nomad.url,
		"sandbox_job_id":      nomadJob,
		"driver":              f.nomad.driver,
		"command":             filepath.Join(bin, "rolloutd"),
		"slots_per_container": 2,
		"min_containers":      1,
		"max_containers":      4,
		"acquire_timeout_s":   1,
		"every_s":             1,
		"cpu_mhz":             50,
		"memory_mib":          256,
		"env":                 env,
	}
	maps.Copy(settings, o.pool)
	config := map[string]any{"pools": map[string]any{"p": settings}}
	maps.Copy(config, o.config)
	// JSON is YAML
	text, err := json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(f.config, text, 0o600))
	f.env = append(
		s3test.Env(),
		"TEMPORAL_ADDRESS="+p[0],
		"ROLLOUTD_ENCRYPTION_KEY="+key,
		"ROLLOUTD_STORE_URL="+f.bucket.URL(s3test.Bucket),
		"SCRIPTED_URL="+f.model.url,
	)
	f.server = &role{
		binary: "rolloutd",
		health: "http://" + p[3] + "/healthz",
		args:   []string{"serve", "--data", f.folder(), "--listen", p[2], "--config", f.config},
	}
	f.server.env = append([]string{"ROLLOUTD_METRICS_LISTEN=" + p[3]}, f.env...)
	f.url = "http://" + p[2]
	f.serve(o.serve...)

	return f
}

// folder returns a new data folder.
func (f *nomadFleet) folder() string {
	dir := dataFolder(f.t)
	f.data = append(f.data, dir)

	return dir
}

func (f *nomadFleet) start(r *role, env ...string) {
	f.t.Helper()
	r.process = startProcess(f.t, slices.Concat(r.env, env), r.binary, r.args...)
	f.logs = append(f.logs, r.log)
	r.ready(f.t, r.health)
}

// serve starts the server, or restarts it, with additional environment.
func (f *nomadFleet) serve(env ...string) {
	f.t.Helper()

	if f.server.process != nil {
		f.server.stop(f.t)
	}

	f.start(f.server, env...)
}

// command runs `rolloutd pool` and returns its output.
func (f *nomadFleet) command(args ...string) string {
	f.t.Helper()
	cmd := exec.CommandContext(
		f.t.Context(),
		filepath.Join(bin, "rolloutd"),
		append([]string{"pool"}, append(args, "--config", f.config)...)...)
	cmd.Env = append(environ(), f.env...)
	out, err := cmd.CombinedOutput()
	require.NoError(f.t, err, "%s", out)

	return string(out)
}

// await waits until ok accepts the pool's status, and returns this status.
func (f *nomadFleet) await(what string, ok func(pool.Status) bool) pool.Status {
	f.t.Helper()
	f.t.Log("wait for", what)

	var (
		last string
		got  struct {
			Status pool.Status `json:"status"`
		}
	)

	if !assertEventually(func() bool {
		cmd := exec.CommandContext(
			f.t.Context(),
			filepath.Join(bin, "rolloutd"),
			"pool",
			"status",
			"p",
			"--json",
			"--config",
			f.config,
		)
		cmd.Env = append(environ(), f.env...)
		out, err := cmd.Output()
		last = string(out)
		got.Status = pool.Status{}

		return err == nil && json.Unmarshal(out, &got) == nil && ok(got.Status)
	}, 6*time.Minute, 200*time.Millisecond) {
		require.FailNow(f.t, "the pool has not: "+what, last)
	}

	return got.Status
}

// assertEventually waits for a condition in the caller's goroutine and reports whether the condition was met in time.
func assertEventually(ok func() bool, bound, pause time.Duration) bool {
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(pause) {
		if ok() {
			return true
		}
	}

	return false
}

func (f *nomadFleet) awaitError(text string) {
	f.t.Helper()
	f.await("the error "+text, func(s pool.Status) bool { return strings.Contains(s.Error, text) })
}

func (f *nomadFleet) awaitPurged() {
	f.t.Helper()
	require.True(
		f.t,
		assertEventually(func() bool { return f.nomad.job(f.t, nomadJob) == nil }, 5*time.Minute, 100*time.Millisecond),
		"the job is not purged",
	)
}

// running counts the hosts that accept rollouts.
func running(s pool.Status) (n int) {
	for _, h := range s.Hosts {
		if h.State == fleet.Running {
			n++
		}
	}

	return n
}

func hostsRun(n int) func(pool.Status) bool {
	return func(s pool.Status) bool { return s.Error == "" && running(s) == n && len(s.Hosts) == n }
}

// play waits for a slot, begins an episode and runs one step. The episode occupies the slot until it is graded.
func (f *nomadFleet) play() nomadEpisode {
	f.t.Helper()
	f.t.Log("episode", f.n+1)
	f.n++
	p := player{f.url, fmt.Sprint("s", f.n)}
	begun, err := p.post("/reset", args{
		"instruction": "count",
		"verify":      []string{`test "$(cat log)" = "$(printf 'a\nb')"`},
	})
	require.NoError(f.t, err)
	require.Empty(f.t, p.mustBash(f.t, "1", "echo a >> log"))

	return nomadEpisode{f, p, begun.Observation.RolloutID}
}

type nomadEpisode struct {
	f  *nomadFleet
	p  player
	id string
}

// finish runs the last step, submits, and checks that the episode lost nothing.
func (e nomadEpisode) finish() {
	t := e.f.t
	t.Helper()
	require.Equal(t, "a\nb", e.p.mustBash(t, "2", "echo b >> log; cat log"))
	graded, err := e.p.post("/step", args{"action": args{"tool_name": "submit"}})
	require.NoError(t, err)
	require.NotNil(t, graded.Reward, "%+v", graded.Observation)
	require.InDelta(t, 1.0, *graded.Reward, 0)
	require.Len(t, finalize(t, e.f.url, e.id).Attempts, 1)
}

// change registers a changed job, as an operator does by hand.
func (f *nomadFleet) change(change func(*api.Job)) {
	f.t.Helper()
	job := f.nomad.job(f.t, nomadJob)
	change(job)
	_, _, err := f.nomad.client.Jobs().Register(job, nil)
	require.NoError(f.t, err)
}
