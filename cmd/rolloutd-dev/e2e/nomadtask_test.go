package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Both agents run one task file on a pool of two hosts, and each host gives the same result as a single
// machine. Then the allocation that runs a rollout of OpenCode is stopped, and the rollout ends on another
// host.
func TestNomadPoolRunsATaskFile(t *testing.T) {
	demo, err := os.ReadFile(filepath.Join("..", "..", "..", "internal", "scripted", "demo.yaml"))
	require.NoError(t, err)
	f := startNomadFleet(t, nomadFleetOptions{
		pool:   map[string]any{"slots_per_container": 1, "min_containers": 2, "max_containers": 2},
		env:    map[string]any{"ROLLOUTD_SANDBOX_MEMORY_MIB": "1024"},
		script: slowScript + string(demo),
	})
	single := startDev(t, devOptions{modelURL: f.model.url, env: []string{"ROLLOUTD_SANDBOX_MEMORY_MIB=1024"}})
	run := func(url, agent string) rollout.Result {
		a := exampleArgs(t, "binary_search")
		a["agent"] = agent

		return runRollout(t, url, a)
	}

	want := map[string]outcome{}
	for _, agent := range []string{"react", "opencode"} {
		want[agent] = outcomeOf(t, run(single.url, agent)).withoutTimes()
		require.Equal(t, rollout.Completed, want[agent].Outcome)
		require.InDelta(t, 1.0, want[agent].Reward, 0)
	}

	f.command("up", "p")
	f.await("two hosts", hostsRun(2))

	var ran []string
	// this occupies the only slot of a host, so rollouts run on the other host
	busy := f.play()
	for range 2 {
		holder := hostOf(t, f.url, busy.id)
		for agent, want := range want {
			result := run(f.url, agent)
			require.Equal(t, want, outcomeOf(t, result).withoutTimes(), agent)
			require.Len(t, result.Attempts, 1)
			require.NotEqual(t, holder, result.Attempts[0].Host)
			ran = append(ran, result.Attempts[0].Host)
		}

		next := f.play()

		busy.finish()
		busy = next
	}

	busy.finish()
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(ran))), 2, "both hosts ran rollouts")

	id := start(t, f.url, args{
		"instruction": "take your time",
		"endpoint":    "scripted",
		"verify":      []string{`test "$(cat log.txt)" = "$(printf 'one\ntwo\nthree')"`},
	})
	waitFor(t, f.url, id, "two turns", func(s state) bool { return s.Phase == rollout.PhaseAgent && s.Turns >= 2 })
	lost := hostOf(t, f.url, id)
	f.stopAllocation(lost)
	result := finalize(t, f.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1.0, *result.Reward, 0)
	require.Len(t, result.Attempts, 2)
	require.Equal(t, lost, result.Attempts[0].Host)
	require.NotEqual(t, lost, result.Attempts[1].Host)
	require.Len(t, result.ProxyTurns, 4, "the turns of the second attempt alone")
}

// stopAllocation stops the allocation that runs a host.
func (f *nomadFleet) stopAllocation(host string) {
	f.t.Helper()

	for _, id := range f.nomad.live(f.t, nomadJob) {
		if pool.HostName(id) == host {
			alloc, _, err := f.nomad.client.Allocations().Info(id, nil)
			require.NoError(f.t, err)
			_, err = f.nomad.client.Allocations().Stop(alloc, nil)
			require.NoError(f.t, err)

			return
		}
	}

	require.Fail(f.t, "no allocation runs host "+host)
}
