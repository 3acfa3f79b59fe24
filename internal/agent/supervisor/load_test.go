package supervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/supervisor"
)

// On a heavily loaded machine, a starting agent gets a smaller share of a core than an idle agent uses on
// an idle machine.
func TestProgressOnALoadedMachine(t *testing.T) {
	t.Parallel()

	const idle, crowded = 0.05, 0.02
	for _, c := range []struct {
		load  float64
		cores int
		want  float64
	}{{0, 2, idle}, {-1, 2, idle}, {1, 2, idle}, {20, 2, idle}, {50, 2, crowded}, {500, 2, 0.002}, {500, 64, idle}} {
		require.InDelta(t, c.want, supervisor.WorkingShareAt(c.load, c.cores), 1e-9, "%+v", c)
	}
}
