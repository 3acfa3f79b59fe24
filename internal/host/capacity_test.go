package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
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

// A worker that waits for a slot continues when a sandbox ends or a slot is released, and stops waiting
// when its context ends.
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

	release, err := c.Claim(t.Context(), host.Claim{ID: "big.1", Size: memory(6000)})
	require.NoError(t, err, "it lives already")
	release()

	_, err = c.Claim(t.Context(), host.Claim{ID: "huge.1", Size: memory(10_001)})
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(
		t,
		err,
		"sandbox huge.1 asks for 10001 MiB of memory, more than this host has: 10000 MiB of memory",
		"no bound is not 0",
	)
}

// remove ends a sandbox.
func (l *living) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.infos = slices.DeleteFunc(l.infos, func(i driver.Info) bool { return i.ID == id })
}

// start makes a claim and, when it is granted, the sandbox.
func (l *living) start(t *testing.T, c *host.Capacity, r host.Claim, granted chan<- string) {
	t.Helper()
	go func() {
		release, err := c.Claim(t.Context(), r)
		if err != nil {
			granted <- r.ID + ": " + err.Error()
			return
		}

		l.mu.Lock()
		info := sized(r.ID, r.Size.MemoryMiB)
		info.Labels[driver.LabelOwner] = r.Owner
		l.infos = append(l.infos, info)
		l.mu.Unlock()
		release()

		granted <- r.ID
	}()

	synctest.Wait()
}

// A large sandbox that waits does not keep small ones from room that it cannot use, but only a few of them
// overtake it: then it has its turn, also if its activity returns to Temporal meanwhile.
func TestLargeClaimIsOvertakenAFewTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &living{infos: []driver.Info{sized("old.1", 6000)}}
		c := host.NewCapacity(host.CapacityOptions{
			Slots:     10,
			Total:     memory(10_000),
			Default:   memory(2000),
			Sandboxes: l,
		})
		granted := make(chan string, 1)
		large := make(chan string, 1)

		require.NotNil(t, c.TryReserveSlot(nil))
		l.start(t, c, host.Claim{ID: "large.1", Size: memory(8000)}, large)
		require.NotNil(t, c.TryReserveSlot(nil), "a worker polls for small sandboxes meanwhile")

		overtakers := 0

		for n := range 20 {
			id := fmt.Sprintf("small%d.1", n)
			l.start(t, c, host.Claim{ID: id, Size: memory(3000), Until: time.Now().Add(time.Second)}, granted)

			if <-granted != id {
				break
			}

			overtakers++

			l.remove(id)
		}

		require.Equal(t, 8, overtakers)

		require.Contains(t, <-large, "more than this host has left of 10000 MiB of memory")
		l.start(t, c, host.Claim{ID: "small.1", Size: memory(3000), Until: time.Now().Add(5 * time.Second)}, granted)
		require.NotEqual(t, "small.1", <-granted, "the large one is in Temporal and keeps its place")
		l.start(t, c, host.Claim{ID: "large.1", Size: memory(8000)}, large)
		l.remove("old.1")
		require.Equal(t, "large.1", <-large)
		l.remove("large.1")

		// One that does not return keeps its place for a while only.
		l.start(t, c, host.Claim{ID: "small.1", Size: memory(3000)}, granted)
		require.Equal(t, "small.1", <-granted)
	})
}

// A large claim that another host has taken meanwhile keeps no room.
func TestClaimThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &living{infos: []driver.Info{sized("old.1", 6000)}}
		c := host.NewCapacity(host.CapacityOptions{
			Slots:     10,
			Total:     memory(10_000),
			Default:   memory(2000),
			Sandboxes: l,
		})
		large, granted := make(chan string, 1), make(chan string, 1)
		l.start(t, c, host.Claim{ID: "large.1", Size: memory(8000)}, large)

		for n := range 8 {
			id := fmt.Sprintf("small%d.1", n)
			l.start(t, c, host.Claim{ID: id, Size: memory(3000)}, granted)
			require.Equal(t, id, <-granted)
			l.remove(id)
		}

		<-large
		l.start(t, c, host.Claim{ID: "small.1", Size: memory(3000)}, granted)
		require.Equal(t, "small.1", <-granted)
	})
}

// A claim waits no longer than its rollout wants to be queued.
func TestClaimEndsWithTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &living{infos: []driver.Info{sized("old.1", 6000)}}
		c := host.NewCapacity(host.CapacityOptions{
			Slots:     10,
			Total:     memory(10_000),
			Default:   memory(2000),
			Sandboxes: l,
		})
		begun := time.Now()
		_, err := c.Claim(t.Context(), host.Claim{ID: "r.1", Size: memory(8000), Until: begun.Add(3 * time.Second)})
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.Equal(t, 3*time.Second, time.Since(begun))
	})
}

// The backends of a machine share its memory.
func TestBackendsShareTheMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		machine := host.NewAccount(memory(10_000))
		lists := map[string]*living{"local": {}, "docker": {}}

		backends := map[string]*host.Capacity{}
		for name, l := range lists {
			backends[name] = host.NewCapacity(host.CapacityOptions{
				Slots:     5,
				Total:     memory(10_000),
				Default:   memory(2000),
				Sandboxes: l,
				Account:   machine,
			})
		}

		granted := make(chan string, 1)

		for n := range 5 {
			name := []string{"local", "docker"}[n%2]
			id := fmt.Sprintf("r%d.1", n)
			lists[name].start(t, backends[name], host.Claim{ID: id, Size: memory(2000)}, granted)
			require.Equal(t, id, <-granted)
		}

		for name, c := range backends {
			require.Nil(t, c.TryReserveSlot(nil), name)
			room, err := c.Room(t.Context())
			require.NoError(t, err)
			require.Equal(t, room.Used, room.Slots, "the others have taken the rest of the memory")
			lists[name].start(t, c, host.Claim{
				ID:    "late.1",
				Size:  memory(2000),
				Until: time.Now().Add(time.Second),
			}, granted)
			require.Contains(t, <-granted, "more than this host has left")
		}

		waiting := make(chan string, 1)
		lists["local"].start(t, backends["local"], host.Claim{ID: "next.1", Size: memory(2000)}, waiting)
		lists["docker"].remove("r1.1")
		require.Equal(t, "next.1", <-waiting, "room that one backend leaves is the other's")

		lists["docker"].err = errors.New("the daemon is away")
		lists["local"].remove("next.1")
		require.NotNil(t, backends["local"].TryReserveSlot(nil), "the last list of the other backend counts")
		require.Nil(t, backends["local"].TryReserveSlot(nil))
		require.Nil(t, backends["docker"].TryReserveSlot(nil))
	})
}

// The rollouts of one token take their share of the slots at most, and the reason names the setting.
func TestShareOfAToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &living{}
		c := host.NewCapacity(host.CapacityOptions{
			Slots:     4,
			Total:     memory(8000),
			Default:   memory(2000),
			Sandboxes: l,
			Share:     0.5,
		})

		granted := make(chan string, 1)
		for _, id := range []string{"a1.1", "a2.1"} {
			l.start(t, c, host.Claim{ID: id, Owner: "alice", Size: memory(1000)}, granted)
			require.Equal(t, id, <-granted)
		}

		l.start(t, c, host.Claim{ID: "a3.1", Owner: "alice", Size: memory(1000)}, granted)
		require.Contains(
			t,
			<-granted,
			`the rollouts of token "alice" have 2 sandboxes on this host, their share of 4 (worker.token_share)`,
		)

		for _, r := range []host.Claim{{ID: "b1.1", Owner: "bob"}, {ID: "a2.1", Owner: "alice"}, {ID: "x.1"}} {
			l.start(t, c, r, granted)
			require.Equal(t, r.ID, <-granted)
		}
	})
}

// silentBackend does not answer, as a container engine that is stopped.
type silentBackend struct{ asked int }

func (s *silentBackend) List(ctx context.Context) ([]driver.Info, error) {
	s.asked++

	<-ctx.Done()

	return nil, ctx.Err()
}

// A backend that does not answer holds up the others of its machine once in half a minute, not at each look.
func TestSilentBackend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		account := host.NewAccount(rollout.Resources{})
		stopped := &silentBackend{}
		docker := host.NewCapacity(host.CapacityOptions{Slots: 100, Account: account, Sandboxes: stopped})
		local := host.NewCapacity(host.CapacityOptions{Slots: 100, Account: account, Sandboxes: &living{}})

		begun := time.Now()

		for range 20 {
			_, err := local.Spare(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Second)
		}

		require.Equal(t, 1, stopped.asked)
		require.Less(t, time.Since(begun), 31*time.Second)

		time.Sleep(time.Minute)

		_, err := local.Spare(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, stopped.asked)

		for range 2 {
			_, err = docker.Spare(t.Context())
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}

		require.Equal(t, 4, stopped.asked, "its own looks ask: an error without a look would be a failed try")
	})
}
