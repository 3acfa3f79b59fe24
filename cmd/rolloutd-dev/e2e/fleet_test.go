package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store/s3test"
)

// cluster is a deployment of several hosts: Temporal, servers, and hosts with a gateway, a worker and a
// data folder each. All share a bucket.
type cluster struct {
	t        *testing.T
	temporal string

	// URLs
	servers []string
	hosts   []fleetHost
	logs    []string
	bucket  *s3test.Server

	// all data folders
	data []string
}

// fleetHost is one of the hosts. Its worker has one slot unless a test sets another number.
type fleetHost struct {
	// the host's name in the deployment
	name            string
	gateway, worker *role
}

// startCluster starts the roles of a cluster. more is additional environment of all roles except Temporal.
func startCluster(t *testing.T, hosts, servers int, modelURL string, more ...string) *cluster {
	t.Helper()
	f := &cluster{t: t, bucket: s3test.Start(t)}
	p := freePorts(t, 2)
	f.temporal = p[0]
	temporal := &role{binary: "rolloutd-dev", health: "http://" + p[1] + "/healthz", args: []string{
		"temporal", "--data", f.folder(), "--temporal-port", portOf(t, p[0]), "--ui-port", portOf(t, p[1]),
	}}
	f.start(temporal)
	env := append(
		s3test.Env(),
		"TEMPORAL_ADDRESS="+f.temporal,
		"ROLLOUTD_STORE_URL="+f.bucket.URL(s3test.Bucket),
		"SCRIPTED_URL="+modelURL,
		"ROLLOUTD_ENCRYPTION_KEY="+strings.Repeat("1f", 32),
		"ROLLOUTD_SANDBOX_WARM=0",
		"ROLLOUTD_WORKER_CAPACITY=1",
	)
	env = append(env, more...)
	one := func(kind string, more ...string) *role {
		p := freePorts(t, 1)
		r := &role{
			binary: "rolloutd",
			health: "http://" + p[0] + "/healthz",
			env:    append([]string{"ROLLOUTD_METRICS_LISTEN=" + p[0]}, env...),
		}
		r.args = append([]string{kind, "--verbose"}, more...)

		return r
	}

	for range hosts {
		data, p := f.folder(), freePorts(t, 1)
		gateway := one("gateway", "--data", data, "--listen", p[0])
		gateway.env = append(gateway.env, "ROLLOUTD_TRAINER_LISTEN=127.0.0.1:0")
		f.hosts = append(
			f.hosts,
			fleetHost{gateway: gateway, worker: one("worker", "--data", data, "--gateway", "http://"+p[0])},
		)
	}

	for range servers {
		p := freePorts(t, 1)
		f.servers = append(f.servers, "http://"+p[0])
		f.start(one("serve", "--data", f.folder(), "--listen", p[0]))
	}

	for i, h := range f.hosts {
		f.start(h.gateway)
		f.start(h.worker)
		id, err := os.ReadFile(filepath.Join(f.data[1+i], "host_id"))
		require.NoError(t, err)

		f.hosts[i].name = strings.TrimSpace(string(id))
	}

	return f
}

// folder returns a new data folder.
func (f *cluster) folder() string {
	dir := dataFolder(f.t)
	f.data = append(f.data, dir)

	return dir
}

// start starts a role and waits until it is ready.
func (f *cluster) start(r *role) {
	f.t.Helper()
	r.process = startProcess(f.t, r.env, r.binary, r.args...)
	f.logs = append(f.logs, r.log)
	r.ready(f.t, r.health)
}

// list returns the hosts that a server lists, by name.
func (f *cluster) list(server string) map[string]fleet.Host {
	f.t.Helper()

	all := map[string]fleet.Host{}
	for _, h := range decode[fleet.Page](f.t, get(f.t, server+"/hosts")).Hosts {
		all[h.Name] = h
	}

	return all
}

// await waits until a server lists the host without an error and ok accepts the host.
func (f *cluster) await(server, host string, ok func(fleet.Host) bool) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		h := f.list(server)[host]
		return h.Error == "" && ok(h)
	}, 5*time.Minute, 200*time.Millisecond, "host %s", host)
}

// drain drains or resumes a host, as an operator does, and waits until the host has the state.
func (f *cluster) drain(server, host, what string, state fleet.State) {
	f.t.Helper()
	post(f.t, server+"/hosts/"+host+"/"+what, nil, "")
	f.await(server, host, inState(state))
}

func inState(s fleet.State) func(fleet.Host) bool {
	return func(h fleet.Host) bool { return h.State == s }
}

// hostOf returns the host of the rollout's attempt.
func hostOf(t *testing.T, server, id string) string {
	t.Helper()
	s := decode[rollout.State](t, get(t, server+"/rollouts/"+id))
	require.NotEmpty(t, s.Host)

	return s.Host
}

// requireSecretsKept checks that no log, data folder or stored blob contains the bucket's secret key.
func (f *cluster) requireSecretsKept() {
	f.t.Helper()

	look := func(path string, text []byte) {
		require.NotContains(f.t, string(text), s3test.SecretKey, path)
	}
	for _, log := range f.logs {
		text, err := os.ReadFile(log)
		require.NoError(f.t, err)
		look(log, text)
	}

	for _, dir := range append(f.data, f.bucket.Dir) {
		everyFile(f.t, dir, look)
	}
}

// Three hosts with one slot each and two servers share only Temporal and a bucket. Each host runs an
// episode, and clients continue the episodes over the other server, also after the processes of a host were
// killed. A drained host finishes its episode and accepts nothing new, also after its restart. A group of
// rollouts runs on the other hosts.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := startCluster(t, 3, 2, startModel(t, "").url)

	var (
		players []player
		ids     []string
	)

	at := map[string]bool{}

	for i := range f.hosts {
		p := player{f.servers[i%2], fmt.Sprint("s", i)}
		begun, err := p.post("/reset", args{
			"instruction": "count",
			"verify":      []string{`test "$(cat log)" = "$(printf 'a\nb')"`},
		})
		require.NoError(t, err)
		require.Empty(t, p.mustBash(t, "1", "echo a >> log"))
		players, ids = append(players, p), append(ids, begun.Observation.RolloutID)
		at[hostOf(t, p.url, ids[i])] = true
	}

	require.Len(t, at, len(f.hosts), "a host has one slot")

	drained := f.hosts[0]
	f.drain(f.servers[1], drained.name, "drain", fleet.Draining)
	postGroup(t, f.servers[0], args{
		"instruction": "nothing",
		"agent":       "nop",
		"endpoint":    "scripted",
		"group_id":    "g",
		"group_size":  2,
		"verify":      []string{"true"},
	})

	for _, h := range f.hosts {
		f.await(f.servers[0], h.name, func(h fleet.Host) bool { return h.Total() == fleet.Room{Slots: 1, Used: 1} })
	}

	killed := f.hosts[1]
	killed.worker.kill()
	killed.gateway.kill()
	f.start(killed.gateway)
	f.start(killed.worker)

	for i := range players {
		players[i].url = f.servers[(i+1)%2]
		require.Equal(t, "a\nb", players[i].mustBash(t, "2", "echo b >> log; cat log"))
		graded, err := players[i].post("/step", args{"action": args{"tool_name": "submit"}})
		require.NoError(t, err)
		require.NotNil(t, graded.Reward, "%+v", graded.Observation)
		require.InDelta(t, 1.0, *graded.Reward, 0)
	}

	for _, id := range ids {
		require.Len(t, finalize(t, f.servers[0], id).Attempts, 1)
		require.FileExists(t, filepath.Join(f.bucket.Dir, s3test.Bucket, "rollouts", id, "result.json"))
	}

	group := waitGroup(t, f.servers[1], "g")
	require.Equal(t, []float64{1, 1}, group.Rewards(), group.Error)

	for _, m := range group.Members {
		for _, a := range finalize(t, f.servers[0], m.RolloutID).Attempts {
			require.Contains(t, []string{f.hosts[1].name, f.hosts[2].name}, a.Host)
		}
	}

	f.await(f.servers[0], drained.name, inState(fleet.Drained))
	drained.worker.kill()

	restarted := time.Now()

	f.start(drained.worker)
	f.await(
		f.servers[0],
		drained.name,
		func(h fleet.Host) bool { return h.StartedAt.After(restarted) && h.State == fleet.Drained },
	)
	f.drain(f.servers[0], drained.name, "resume", fleet.Running)
	f.requireSecretsKept()
}

// A host is killed and not restarted. Its rollout loses one attempt and completes in the next. The test
// takes three minutes, mostly of waiting.
func TestFleetLosesAHost(t *testing.T) {
	if os.Getenv("ROLLOUTD_TEST_FLEET") == "" {
		t.Skip("ROLLOUTD_TEST_FLEET is not set")
	}

	t.Parallel()
	model := startModel(t, reactScript)
	f := startCluster(t, 2, 2, model.url)
	id := start(t, f.servers[0], reactArgs())
	waitFor(t, f.servers[0], id, "agent at work", func(s state) bool { return s.Phase == rollout.PhaseAgent })

	lost := hostOf(t, f.servers[0], id)
	for _, h := range f.hosts {
		if h.name == lost {
			h.worker.kill()
			h.gateway.kill()
		}
	}

	result := finalize(t, f.servers[1], id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1.0, *result.Reward, 0)
	require.Len(t, result.Attempts, 2)
	require.Len(t, result.ProxyTurns, 4, "the turns of the second attempt alone")
	require.Eventually(
		t,
		func() bool { return f.list(f.servers[1])[lost].State == fleet.Lost },
		6*time.Minute,
		time.Second,
	)
}
