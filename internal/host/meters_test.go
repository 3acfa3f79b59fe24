package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// silent is a backend that does not answer.
type silent struct{}

func (silent) List(ctx context.Context) ([]driver.Info, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A backend that does not answer takes no value of another one.
func TestMetersBesideASilentBackend(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		account := host.NewAccount(rollout.Resources{})
		meters := host.Meters{
			Rooms: map[string]*host.Capacity{
				"docker": host.NewCapacity(host.CapacityOptions{Slots: 3, Account: account, Sandboxes: silent{}}),
				"local":  host.NewCapacity(host.CapacityOptions{Slots: 3, Account: account, Sandboxes: &living{}}),
			},
			Waiting: func(ctx context.Context, _ string) (int, error) { return 1, ctx.Err() },
		}

		require.Equal(t, 1, testutil.CollectAndCount(meters, "rolloutd_slots"))
		require.Equal(t, 2, testutil.CollectAndCount(meters, "rolloutd_queue_waiting"))
	})
}

// A host reports its slots, its sandboxes and the queue; a backend that cannot be listed has no values of its own.
func TestMetersOfAHost(t *testing.T) {
	t.Parallel()

	l, broken := &living{}, &living{err: errors.New("no daemon")}
	l.set(2)

	meters := host.Meters{
		Rooms: map[string]*host.Capacity{
			"local":  host.NewCapacity(host.CapacityOptions{Slots: 3, Sandboxes: l}),
			"docker": host.NewCapacity(host.CapacityOptions{Slots: 3, Sandboxes: broken}),
		},
		Waiting: func(_ context.Context, backend string) (int, error) { return len(backend), nil },
	}

	require.NoError(t, testutil.CollectAndCompare(meters, strings.NewReader(`
# HELP rolloutd_host_drained 1 while this host is drained and takes no new sandbox.
# TYPE rolloutd_host_drained gauge
rolloutd_host_drained 0
# HELP rolloutd_queue_waiting Rollouts that wait in Temporal for any host with the backend (an estimate; all hosts report the same).
# TYPE rolloutd_queue_waiting gauge
rolloutd_queue_waiting{backend="docker"} 6
rolloutd_queue_waiting{backend="local"} 5
# HELP rolloutd_sandboxes Sandboxes that live on this host, those of verifiers and warm ones too.
# TYPE rolloutd_sandboxes gauge
rolloutd_sandboxes{backend="local"} 4
# HELP rolloutd_slots Sandboxes of rollouts that this host can hold.
# TYPE rolloutd_slots gauge
rolloutd_slots{backend="local"} 3
# HELP rolloutd_slots_used Slots of this host that rollouts have, whose sandboxes live or are about to be made.
# TYPE rolloutd_slots_used gauge
rolloutd_slots_used{backend="local"} 2
`)))
}
