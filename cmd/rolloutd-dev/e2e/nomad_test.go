package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fleet"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/store/s3test"
)

const nomadJob = "hosts"

// nomadFleet is a deployment whose hosts are a pool on a real Nomad, with two slots each.
type nomadFleet struct {
	t      *testing.T
	nomad  *nomadAgent
	server string // URL
	env    []string
	config string
	n      int // of the episodes begun
}

func startNomadFleet(t *testing.T, settings string) *nomadFleet {
	t.Helper()
	if os.Getenv("ROLLOUTD_TEST_NOMAD") == "" {
		t.Skip("ROLLOUTD_TEST_NOMAD names no Nomad (make test-nomad)")
	}
	if os.Getuid() != 0 {
		t.Skip("Nomad's client needs root")
	}
	f := &nomadFleet{t: t, nomad: startNomad(t), config: filepath.Join(t.TempDir(), "rolloutd.yaml")}
	t.Cleanup(func() { f.nomad.purge(t, nomadJob) })
	bucket, p := s3test.Start(t), freePorts(t, 4)
	temporal := &role{binary: "rolloutd-dev", health: "http://" + p[1] + "/healthz", args: []string{
		"temporal", "--data", dataFolder(t), "--temporal-port", portOf(t, p[0]), "--ui-port", portOf(t, p[1]),
	}}
	temporal.process = startProcess(t, nil, temporal.binary, temporal.args...)
	temporal.ready(t, temporal.health)
	key := strings.Repeat("1f", 32)
	secrets := map[string]string{"ROLLOUTD_ENCRYPTION_KEY": key}
	for _, pair := range s3test.Env() {
		name, value, _ := strings.Cut(pair, "=")
		secrets[name] = value
	}
	_, _, err := f.nomad.client.Variables().Create(&api.Variable{Path: "nomad/jobs/" + nomadJob, Items: secrets}, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(f.config, fmt.Appendf(nil, `
pools:
  p:
    nomad_address: %s
    sandbox_job_id: %s
    driver: raw_exec
    command: %s
    slots_per_container: 2
    min_containers: 1
    max_containers: 4
    acquire_timeout_s: 1
    every_s: 1
    cpu_mhz: 50
    memory_mib: 256
    env:
      TEMPORAL_ADDRESS: %s
      ROLLOUTD_STORE_URL: %q
      ROLLOUTD_SANDBOX_WARM: "0"
      ROLLOUTD_SANDBOX_MEMORY_MIB: "256"
      SCRIPTED_URL: %s
%s`, f.nomad.url, nomadJob, filepath.Join(bin, "rolloutd"), p[0], bucket.URL(s3test.Bucket), startModel(t, "").url, settings), 0o600))
	f.env = append(s3test.Env(), "TEMPORAL_ADDRESS="+p[0], "ROLLOUTD_ENCRYPTION_KEY="+key, "ROLLOUTD_STORE_URL="+bucket.URL(s3test.Bucket))
	serve := &role{binary: "rolloutd", health: "http://" + p[3] + "/healthz", args: []string{"serve", "--data", dataFolder(t), "--listen", p[2], "--config", f.config}}
	serve.process = startProcess(t, append([]string{"ROLLOUTD_METRICS_LISTEN=" + p[3]}, f.env...), serve.binary, serve.args...)
	serve.ready(t, serve.health)
	f.server = "http://" + p[2]
	return f
}

// command runs `rolloutd pool`.
func (f *nomadFleet) command(args ...string) string {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), filepath.Join(bin, "rolloutd"), append([]string{"pool"}, append(args, "--config", f.config)...)...)
	cmd.Env = append(environ(), f.env...)
	out, err := cmd.CombinedOutput()
	require.NoError(f.t, err, "%s", out)
	return string(out)
}

// await waits until the pool is as the test wants it.
func (f *nomadFleet) await(what string, ok func(pool.Status) bool) pool.Status {
	f.t.Helper()
	f.t.Log("wait for", what)
	var last string
	var got struct {
		Status pool.Status `json:"status"`
	}
	if !assertEventually(func() bool {
		cmd := exec.CommandContext(f.t.Context(), filepath.Join(bin, "rolloutd"), "pool", "status", "p", "--json", "--config", f.config)
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

// assertEventually waits for a condition in the caller's goroutine.
func assertEventually(ok func() bool, bound, pause time.Duration) bool {
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(pause) {
		if ok() {
			return true
		}
	}
	return false
}

// running counts the hosts that take rollouts.
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

// play begins an episode, which holds a slot until it is graded, and makes a step. It waits for a slot.
func (f *nomadFleet) play() nomadEpisode {
	f.t.Helper()
	f.t.Log("episode", f.n+1)
	f.n++
	p := player{f.server, fmt.Sprint("s", f.n)}
	begun, err := p.post("/reset", args{"instruction": "count", "verify": []string{`test "$(cat log)" = "$(printf 'a\nb')"`}})
	require.NoError(f.t, err)
	require.Empty(f.t, p.mustBash(f.t, "1", "echo a >> log"))
	return nomadEpisode{f, p, begun.Observation.RolloutID}
}

type nomadEpisode struct {
	f  *nomadFleet
	p  player
	id string
}

// finish makes the last step, and checks that the episode lost nothing.
func (e nomadEpisode) finish() {
	t := e.f.t
	t.Helper()
	require.Equal(t, "a\nb", e.p.mustBash(t, "2", "echo b >> log; cat log"))
	graded, err := e.p.post("/step", args{"action": args{"tool_name": "submit"}})
	require.NoError(t, err)
	require.NotNil(t, graded.Reward, "%+v", graded.Observation)
	require.InDelta(t, 1.0, *graded.Reward, 0)
	require.Len(t, finalize(t, e.f.server, e.id).Attempts, 1)
}

// A pool grows with the rollouts that wait, is scaled 1 → 3 → 1 under load, and is taken down under load: no rollout loses an attempt, and
// no deployment is made. Nomad's agent is killed and started again meanwhile.
func TestNomadPoolScales(t *testing.T) {
	f := startNomadFleet(t, "")
	require.Contains(t, f.command("up", "p"), "1 to 4 hosts of 2 slots in Nomad job hosts")
	f.await("one host", hostsRun(1))

	all := []nomadEpisode{f.play(), f.play(), f.play()} // the third one needs a second host
	f.await("two hosts", hostsRun(2))
	f.command("scale", "p", "3")
	f.await("three hosts", hostsRun(3))
	all = append(all, f.play(), f.play(), f.play())

	f.command("scale", "p", "1")
	f.await("two hosts that leave", func(s pool.Status) bool {
		n := 0
		for _, h := range s.Hosts {
			if h.State == fleet.Draining {
				n++
			}
		}
		return n == 2
	})
	f.nomad.kill()
	for _, e := range all[:2] {
		e.finish()
	}
	f.await("an error", func(s pool.Status) bool { return s.Error != "" })
	f.nomad.start(t)
	require.Len(t, f.nomad.live(t, nomadJob), 3, "hosts that are not empty stay, and the agent finds them again")
	for _, e := range all[2:] {
		e.finish()
	}
	f.await("one host", hostsRun(1))
	deployments, _, err := f.nomad.client.Jobs().Deployments(nomadJob, true, nil)
	require.NoError(t, err)
	require.Empty(t, deployments)

	last := f.play()
	f.command("down", "p")
	f.await("a host that leaves", func(s pool.Status) bool { return len(s.Hosts) == 1 && s.Hosts[0].State == fleet.Draining })
	last.finish()
	require.True(t, assertEventually(func() bool { return f.nomad.job(t, nomadJob) == nil }, 5*time.Minute, 100*time.Millisecond), "the job is purged")
}

// Operators change the job by hand: a job with another owner is left alone, one that was stopped stays stopped until the pool is started again, one that was
// purged is made again. Then one allocation of a group under load has its worker killed, which costs nothing, and one is stopped, which costs its rollouts an attempt.
func TestNomadPoolByHand(t *testing.T) {
	f := startNomadFleet(t, "")
	f.command("up", "p")
	f.await("one host", hostsRun(1))

	job := f.nomad.job(t, nomadJob)
	owner := job.Meta["rolloutd_owner"]
	f.change(func(j *api.Job) { j.Meta["rolloutd_owner"] = "another" })
	version := *f.nomad.job(t, nomadJob).Version
	f.command("scale", "p", "2")
	f.await("a refusal", func(s pool.Status) bool { return strings.Contains(s.Error, `has the owner "another"`) })
	require.Equal(t, version, *f.nomad.job(t, nomadJob).Version)
	f.change(func(j *api.Job) { j.Meta["rolloutd_owner"] = owner })
	f.await("two hosts", hostsRun(2))

	_, _, err := f.nomad.client.Jobs().Deregister(nomadJob, false, nil)
	require.NoError(t, err)
	f.await("that it was stopped", func(s pool.Status) bool { return strings.Contains(s.Did, "stopped by hand") })
	require.True(t, *f.nomad.job(t, nomadJob).Stop)
	f.command("up", "p")
	f.await("one host", hostsRun(1))

	f.command("scale", "p", "4")
	f.await("four hosts", hostsRun(4))
	postGroup(t, f.server, args{
		"instruction": "nothing", "agent": "nop", "endpoint": "scripted", "group_id": "g", "group_size": 8, "verify": []string{"sleep 20"},
	})
	busy := f.await("eight rollouts", func(s pool.Status) bool {
		n := 0
		for _, h := range s.Hosts {
			n += h.Used
		}
		return n == 8
	})
	killed, _, err := f.nomad.client.Allocations().Info(busy.Hosts[0].Alloc, nil)
	require.NoError(t, err)
	require.NoError(t, f.nomad.client.Allocations().Signal(killed, nil, "worker", "SIGKILL"))
	stopped, _, err := f.nomad.client.Allocations().Info(busy.Hosts[1].Alloc, nil)
	require.NoError(t, err)
	_, err = f.nomad.client.Allocations().Stop(stopped, nil)
	require.NoError(t, err)
	f.await("four hosts", hostsRun(4))
	group := waitGroup(t, f.server, "g")
	require.Equal(t, []float64{1, 1, 1, 1, 1, 1, 1, 1}, group.Rewards(), group.Error)
	lost := 0
	for _, m := range group.Members {
		attempts := finalize(t, f.server, m.RolloutID).Attempts
		for _, a := range attempts[:len(attempts)-1] {
			require.Equal(t, busy.Hosts[1].Host, a.Host, "only the stopped host loses attempts")
			lost++
		}
	}
	require.LessOrEqual(t, lost, 2)

	_, _, err = f.nomad.client.Jobs().Deregister(nomadJob, true, nil)
	require.NoError(t, err)
	f.await("four hosts", func(s pool.Status) bool { return hostsRun(4)(s) && s.Hosts[0].Alloc != busy.Hosts[0].Alloc })
	f.command("down", "p", "--now")
	require.True(t, assertEventually(func() bool { return f.nomad.job(t, nomadJob) == nil }, 5*time.Minute, 100*time.Millisecond), "the job is purged")
}

// change changes the job as an operator does.
func (f *nomadFleet) change(change func(*api.Job)) {
	f.t.Helper()
	job := f.nomad.job(f.t, nomadJob)
	change(job)
	_, _, err := f.nomad.client.Jobs().Register(job, nil)
	require.NoError(f.t, err)
}
