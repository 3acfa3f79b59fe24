package e2e

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test measures the wall time of 40 rollouts on a pool of four hosts with ten slots each, relative to
// four such hosts without Nomad. Both run on this machine, alternately. The test logs the median of the
// ratios and fails only if a rollout fails.
func TestNomadPoolOverBareHosts(t *testing.T) {
	if os.Getenv("ROLLOUTD_BENCH_NOMAD") == "" {
		t.Skip("ROLLOUTD_BENCH_NOMAD is not set (deploy/bench.sh nomad)")
	}

	const hosts, rollouts, rounds = 4, 40, 7

	f := startNomadFleet(t, nomadFleetOptions{
		pool: map[string]any{
			"slots_per_container": 10,
			"min_containers":      hosts,
			"max_containers":      hosts,
			"every_s":             15,
		},
		script: reactScript,
	})
	bare := startCluster(
		t,
		hosts,
		1,
		f.model.url,
		"ROLLOUTD_WORKER_CAPACITY=10",
		"ROLLOUTD_SANDBOX_MEMORY_MIB=256",
		"ROLLOUTD_AGENTS_DIR="+agents,
	)
	f.command("up", "p")
	f.await("four hosts", hostsRun(hosts))

	round := func(url string) time.Duration {
		var ids []string

		begun := time.Now()

		for range rollouts {
			ids = append(ids, start(t, url, reactArgs()))
		}

		used := map[string]bool{}

		for _, id := range ids {
			result := finalize(t, url, id)
			requireReact(t, result)
			used[result.Attempts[0].Host] = true
		}

		require.Len(t, used, hosts, "all hosts run rollouts")

		return time.Since(begun)
	}
	sides := []string{f.url, bare.servers[0]}
	// the first rollouts of a host also open its folders
	for _, url := range sides {
		round(url)
	}

	var ratios []float64

	for i := range rounds {
		took := map[string]time.Duration{}

		order := slices.Clone(sides)
		if i%2 == 1 {
			slices.Reverse(order)
		}

		for _, url := range order {
			took[url] = round(url)
		}

		ratios = append(ratios, took[sides[0]].Seconds()/took[sides[1]].Seconds())
		t.Logf(
			"pool %.2f s, bare hosts %.2f s, ratio %.3f",
			took[sides[0]].Seconds(),
			took[sides[1]].Seconds(),
			ratios[i],
		)
	}

	slices.Sort(ratios)
	t.Logf("median ratio %.3f, from %.3f to %.3f", ratios[rounds/2], ratios[0], ratios[rounds-1])
}
