package e2e

import (
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/pool"
)

// A pool grows with the number of waiting rollouts, is scaled 1 → 3 → 1 under load, and is taken down under
// load. Nomad's agent is killed and started again during the scaling. No rollout loses an attempt, and
// Nomad makes no deployment.
func TestNomadPoolScales(t *testing.T) {
	f := startNomadFleet(t, nomadFleetOptions{})
	require.Contains(t, f.command("up", "p"), "1 to 4 hosts of 2 slots in Nomad job hosts")
	f.await("one host", hostsRun(1))

	// the third episode needs a second host
	all := []nomadEpisode{f.play(), f.play(), f.play()}
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
	f.await(
		"a host that leaves",
		func(s pool.Status) bool { return len(s.Hosts) == 1 && s.Hosts[0].State == fleet.Draining },
	)
	last.finish()
	f.awaitPurged()
}

// Operators change the job by hand. rolloutd does not change a job with another owner. A stopped job stays
// stopped until the pool is started again. A purged job is created again. Under load, killing the worker of
// one allocation costs no attempt, and stopping another allocation costs its rollouts one attempt.
func TestNomadPoolByHand(t *testing.T) {
	f := startNomadFleet(t, nomadFleetOptions{})
	f.command("up", "p")
	f.await("one host", hostsRun(1))

	job := f.nomad.job(t, nomadJob)
	owner := job.Meta["rolloutd_owner"]

	f.change(func(j *api.Job) { j.Meta["rolloutd_owner"] = "another" })
	version := *f.nomad.job(t, nomadJob).Version
	f.command("scale", "p", "2")
	f.awaitError(`has the owner "another"`)
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
	postGroup(t, f.url, args{
		"instruction": "nothing",
		"agent":       "nop",
		"endpoint":    "scripted",
		"group_id":    "g",
		"group_size":  8,
		"verify":      []string{"sleep 20"},
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
	group := waitGroup(t, f.url, "g")
	require.Equal(t, []float64{1, 1, 1, 1, 1, 1, 1, 1}, group.Rewards(), group.Error)

	lost := 0

	for _, m := range group.Members {
		attempts := finalize(t, f.url, m.RolloutID).Attempts
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
	f.awaitPurged()
}
