package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// living is a fake list of a host's sandboxes.
type living struct {
	mu    sync.Mutex
	infos []driver.Info
	err   error
}

func (l *living) List(context.Context) ([]driver.Info, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.infos, l.err
}

// set replaces the list with n agent sandboxes, each with a verifier sandbox.
func (l *living) set(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.infos = nil
	for i := range n {
		id := fmt.Sprintf("r%d.1", i)
		l.infos = append(l.infos,
			driver.Info{ID: id, Labels: map[string]string{driver.LabelPurpose: "agent"}},
			driver.Info{ID: id + ".v", Labels: map[string]string{driver.LabelPurpose: "verifier"}})
	}
}

// Every existing sandbox counts, including those of other processes, and so does every sandbox that is being created.
func TestRoom(t *testing.T) {
	t.Parallel()
	l := &living{}
	room := host.NewCapacity(host.CapacityOptions{Slots: 3, Sandboxes: l})
	require.Equal(t, 3, room.MaxSlots())
	l.set(1)
	require.NotNil(t, room.TryReserveSlot(nil))
	require.NotNil(t, room.TryReserveSlot(nil))
	require.Nil(t, room.TryReserveSlot(nil), "one lives, two are being made")
	l.set(2)
	room.ReleaseSlot(nil)
	require.Nil(t, room.TryReserveSlot(nil), "two live, one is being made")
	l.set(0)
	require.NotNil(t, room.TryReserveSlot(nil))
	l.err = errors.New("disk on fire")
	room.ReleaseSlot(nil)
	require.Nil(t, room.TryReserveSlot(nil), "what cannot be counted is full")
}

// A worker that waits for a slot continues when a sandbox ends or a slot is released, and stops waiting when its context ends.
func TestWaitForRoom(t *testing.T) {
	t.Parallel()
	for name, makeRoom := range map[string]func(*living, *host.Capacity){
		"a sandbox ends":    func(l *living, _ *host.Capacity) { l.set(0) },
		"a slot comes back": func(_ *living, r *host.Capacity) { r.ReleaseSlot(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &living{}
				room := host.NewCapacity(host.CapacityOptions{Slots: 2, Sandboxes: l})
				l.set(1)
				require.NotNil(t, room.TryReserveSlot(nil))
				got := make(chan *worker.SlotPermit, 1)
				go func() {
					permit, _ := room.ReserveSlot(t.Context(), nil)
					got <- permit
				}()
				synctest.Wait()
				require.Empty(t, got)
				makeRoom(l, room)
				require.NotNil(t, <-got)
			})
		})
	}
	t.Run("stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := host.NewCapacity(host.CapacityOptions{Slots: 0, Sandboxes: &living{}}).ReserveSlot(ctx, nil)
				failed <- err
			}()
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-failed, context.Canceled)
		})
	})
}

// Under concurrent requests no more slots are reserved than are free.
func TestRoomUnderContention(t *testing.T) {
	t.Parallel()
	l := &living{}
	l.set(3)
	room := host.NewCapacity(host.CapacityOptions{Slots: 10, Sandboxes: l})
	var wg sync.WaitGroup
	permits := make(chan struct{}, 100)
	for range 100 {
		wg.Go(func() {
			if room.TryReserveSlot(nil) != nil {
				permits <- struct{}{}
			}
		})
	}
	wg.Wait()
	require.Len(t, permits, 7)
}

func TestTuner(t *testing.T) {
	t.Parallel()
	room := host.NewCapacity(host.CapacityOptions{Slots: 5, Sandboxes: &living{}})
	tuner, err := room.Tuner()
	require.NoError(t, err)
	require.Same(t, room, tuner.GetActivityTaskSlotSupplier())
}

// sized returns an agent sandbox with the given memory.
func sized(id string, mib int) driver.Info {
	return driver.Info{ID: id, MemoryMiB: mib, Labels: map[string]string{driver.LabelPurpose: driver.PurposeAgent}}
}

func memory(mib int) rollout.Resources { return rollout.Resources{MemoryMiB: mib} }

// The resources that sandboxes requested count, not only their number.
func TestCapacityCountsResources(t *testing.T) {
	t.Parallel()
	l := &living{infos: []driver.Info{sized("big.1", 6000)}}
	c := host.NewCapacity(host.CapacityOptions{Slots: 10, Total: memory(10_000), Default: memory(2000), Sandboxes: l})
	require.NotNil(t, c.TryReserveSlot(nil))
	require.NotNil(t, c.TryReserveSlot(nil))
	require.Nil(t, c.TryReserveSlot(nil), "6000 are used, and two slots of 2000 are in use")

	release, err := c.Claim(t.Context(), "big.1", memory(6000))
	require.NoError(t, err, "it lives already")
	release()
	_, err = c.Claim(t.Context(), "huge.1", memory(10_001))
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "MiB of disk, more than this host has: ")
}

// A large sandbox waits for capacity, blocks later claims until it has it, and gives up after a minute.
func TestClaimsWaitInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &living{infos: []driver.Info{sized("old.1", 6000)}}
		c := host.NewCapacity(host.CapacityOptions{Slots: 10, Total: memory(10_000), Default: memory(2000), Sandboxes: l})
		require.NotNil(t, c.TryReserveSlot(nil))
		granted := make(chan string, 2)
		for i, id := range []string{"large.1", "small.1"} {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if _, err := c.Claim(t.Context(), id, memory([]int{8000, 3000}[i])); err == nil {
					granted <- id
				}
			}()
		}
		time.Sleep(10 * time.Second)
		require.Empty(t, granted, "the small one would fit, but not beside the large one that came before")
		require.Nil(t, c.TryReserveSlot(nil))
		l.mu.Lock()
		l.infos = nil
		l.mu.Unlock()
		require.Equal(t, "large.1", <-granted)
		time.Sleep(2 * time.Minute)
		require.Empty(t, granted, "the other one gave up")
	})
}
