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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// warmFleet is a fake backend of warm sandboxes that can fail.
type warmFleet struct {
	mu sync.Mutex

	// key by id
	living map[string]string

	// sandboxes that exist, but whose agents do not answer
	dead map[string]bool

	// new id by old id
	given    map[string]string
	started  int
	startErr error
	handErr  error

	// number of destructions that will fail
	stuck int

	// duration of a start
	slow  time.Duration
	spare int

	// number of readiness checks
	looks int

	// of the host
	starts *host.Starts
}

func newWarmFleet() *warmFleet {
	return &warmFleet{living: map[string]string{}, dead: map[string]bool{}, given: map[string]string{}, spare: 10}
}

func (f *warmFleet) Key(a host.WarmAgent) string {
	if a.Name == "cold" {
		return ""
	}

	return fmt.Sprintf("%s/%d", a.Name, a.Job.MaxOutput)
}

func (f *warmFleet) ListWarm(context.Context) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	all := map[string]string{}
	for id, key := range f.living {
		all[id] = key
	}

	return all, nil
}

func (f *warmFleet) Start(ctx context.Context, id string, a host.WarmAgent) error {
	f.mu.Lock()
	f.started++
	f.living[id] = f.Key(a)
	slow, err := f.slow, f.startErr
	f.mu.Unlock()

	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(slow):
		return err
	}
}

func (f *warmFleet) Ready(_ context.Context, id, _ string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.looks++
	if _, ok := f.living[id]; !ok {
		return false, fault.New(fault.SandboxLost, "gone")
	}

	return !f.dead[id], nil
}

func (f *warmFleet) HandOver(_ context.Context, from, to string, _ rollout.Sandbox, _ map[string]string) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.handErr != nil {
		return f.handErr
	}

	if _, ok := f.living[from]; !ok {
		return fault.New(fault.SandboxLost, "gone")
	}

	delete(f.living, from)
	f.given[from] = to

	return nil
}

func (f *warmFleet) Destroy(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.stuck > 0 {
		f.stuck--
		return errors.New("disk on fire")
	}

	delete(f.living, id)

	return nil
}

func (f *warmFleet) Spare(context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.spare, nil
}

func (f *warmFleet) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.looks
}

func (f *warmFleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()

	change()
}

func (f *warmFleet) ids() []string {
	living, _ := f.ListWarm(context.Background())

	ids := make([]string, 0, len(living))
	for id := range living {
		ids = append(ids, id)
	}

	slices.Sort(ids)

	return ids
}

func wants(name string, output int) host.WarmAgent {
	return host.WarmAgent{Name: name, Job: agent.Job{MaxOutput: output}}
}

// pooled runs test with a pool over the warmFleet in a synctest bubble.
func pooled(t *testing.T, f *warmFleet, size int, test func(t *testing.T, p *host.WarmPool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f.starts = host.NewStarts(1, nil)
		p := host.NewWarmPool(host.WarmOptions{
			Size:      size,
			Sandboxes: f,
			Room:      f,
			Starts:    f.starts,
			Registry:  prometheus.NewRegistry(),
		})
		ctx, cancel := context.WithCancel(t.Context())

		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		synctest.Wait()
		test(t, p)
		cancel()
		running.Wait()
		require.Empty(t, f.ids(), "a worker that stops leaves none")
	})
}

func take(t *testing.T, p *host.WarmPool, to string, a host.WarmAgent) bool {
	t.Helper()
	got := p.Take(t.Context(), to, a, rollout.Sandbox{}, nil)

	waitForPool()

	return got
}

// waitForPool waits until a woken pool has finished its delayed work.
func waitForPool() {
	// fake time
	time.Sleep(time.Second)
	synctest.Wait()
}

// The pool fills after the first rollout has asked. It gives each sandbox to one rollout and replaces it.
func TestWarmPoolHandsOverEachOnce(t *testing.T) {
	t.Parallel()

	f := newWarmFleet()
	pooled(t, f, 2, func(t *testing.T, p *host.WarmPool) {
		require.Empty(t, f.ids(), "until a rollout comes, the agent is not known")
		require.False(t, take(t, p, "r1.1", wants("a", 1)))
		require.Len(t, f.ids(), 2)
		require.True(t, take(t, p, "r2.1", wants("a", 1)))
		require.True(t, take(t, p, "r3.1", wants("a", 1)))
		require.Len(t, f.ids(), 2)
		require.Len(t, f.given, 2)

		for from := range f.given {
			require.NotContains(t, f.ids(), from)
		}

		require.False(t, take(t, p, "r4.1", wants("cold", 1)))
	})
}

// A job of another kind does not get a sandbox that was started for this kind. The pool switches kinds when
// such jobs come twice in a row.
func TestWarmPoolKeepsKindsApart(t *testing.T) {
	t.Parallel()

	f := newWarmFleet()
	pooled(t, f, 1, func(t *testing.T, p *host.WarmPool) {
		take(t, p, "r1.1", wants("a", 1))
		require.False(t, take(t, p, "r2.1", wants("a", 2)))
		require.True(t, take(t, p, "r3.1", wants("a", 1)))
		require.False(t, take(t, p, "r4.1", wants("a", 2)), "a mix of jobs does not replace the pool with each")
		require.False(t, take(t, p, "r5.1", wants("a", 2)))
		require.True(t, take(t, p, "r6.1", wants("a", 2)))
	})
}

// The pool detects a dead sandbox before a hand-over and while the sandbox waits.
func TestWarmPoolDetectsDeadSandboxes(t *testing.T) {
	t.Parallel()

	f := newWarmFleet()
	pooled(t, f, 2, func(t *testing.T, p *host.WarmPool) {
		take(t, p, "r1.1", wants("a", 1))

		first := f.ids()
		f.set(func() { f.dead[first[0]] = true; delete(f.living, first[1]) })
		require.False(t, take(t, p, "r2.1", wants("a", 1)))

		second := f.ids()
		require.Len(t, second, 2)
		require.NotContains(t, second, first[0])
		f.set(func() { f.dead[second[0]] = true })
		// fake time
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, f.ids(), 2)
		require.NotContains(t, f.ids(), second[0])
	})
}

// After a worker was killed, the next pool takes over waiting sandboxes and destroys half-made ones.
func TestWarmPoolTakesOver(t *testing.T) {
	t.Parallel()

	f := newWarmFleet()
	f.living = map[string]string{"warm-ready": "a/1", "warm-half": "a/1"}
	f.dead["warm-half"] = true
	pooled(t, f, 1, func(t *testing.T, p *host.WarmPool) {
		require.Equal(t, []string{"warm-ready"}, f.ids())
		require.True(t, take(t, p, "r1.1", wants("a", 1)))
		require.Equal(t, map[string]string{"warm-ready": "r1.1"}, f.given)
	})
	f.living = map[string]string{"warm-ready": "a/1"}
	pooled(t, f, 0, func(t *testing.T, p *host.WarmPool) {
		require.Empty(t, f.ids(), "the pool was turned off")
		require.False(t, take(t, p, "r1.1", wants("a", 1)))
		require.Empty(t, f.ids())
	})
}

// Rollouts have priority: the pool removes sandboxes and cancels starts for which there is no capacity, and
// adds them again when there is.
func TestWarmPoolYieldsCapacityToRollouts(t *testing.T) {
	t.Parallel()

	f := newWarmFleet()
	pooled(t, f, 2, func(t *testing.T, p *host.WarmPool) {
		take(t, p, "r1.1", wants("a", 1))
		f.set(func() { f.spare = 1 })
		p.MakeRoom(t.Context())
		require.Len(t, f.ids(), 1)
		f.set(func() { f.slow, f.spare = time.Minute, 2 })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Len(t, f.ids(), 2, "one is starting")
		f.set(func() { f.spare = 0 })
		p.MakeRoom(t.Context())
		synctest.Wait()
		require.Empty(t, f.ids())
		f.set(func() { f.slow, f.spare = 0, 2 })
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, f.ids(), 2)
	})
}

// While agents of rollouts start, the pool starts none and renews the leases of those it has.
func TestWarmPoolWaitsForStarts(t *testing.T) {
	t.Parallel()

	f := newWarmFleet()
	pooled(t, f, 2, func(t *testing.T, p *host.WarmPool) {
		take(t, p, "r1.1", wants("a", 1))

		before := f.asked()
		release, err := f.starts.Acquire(t.Context(), host.StartAgent)
		require.NoError(t, err)
		require.True(t, take(t, p, "r2.1", wants("a", 1)))
		// fake time; a start counts for 30 s
		time.Sleep(25 * time.Second)
		synctest.Wait()
		require.Len(t, f.ids(), 1)
		require.Greater(t, f.asked(), before, "the leases are renewed meanwhile")
		release()
		time.Sleep(time.Minute)
		require.Len(t, f.ids(), 2)
	})
}

// A failed start leaves no sandbox and is retried with growing delays. A sandbox that cannot be destroyed
// at once is destroyed later.
func TestWarmPoolRetriesSlowly(t *testing.T) {
	t.Parallel()

	f := newWarmFleet()
	f.startErr, f.stuck = errors.New("no such program"), 1
	pooled(t, f, 1, func(t *testing.T, p *host.WarmPool) {
		take(t, p, "r1.1", wants("a", 1))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Empty(t, f.ids())
		require.Less(t, f.started, 8)
		f.set(func() { f.startErr = nil })
		time.Sleep(15 * time.Minute)
		require.Len(t, f.ids(), 1)
		f.set(func() { f.handErr = fault.New(fault.Conflict, "another size") })
		require.False(t, take(t, p, "r2.1", wants("a", 1)))
		require.Len(t, f.ids(), 1, "it is kept for a rollout that it fits")
	})
}

// After half an hour without rollouts the pool is empty.
func TestIdleWarmPoolIsEmpty(t *testing.T) {
	t.Parallel()

	f := newWarmFleet()
	pooled(t, f, 1, func(t *testing.T, p *host.WarmPool) {
		take(t, p, "r1.1", wants("a", 1))
		time.Sleep(29 * time.Minute)
		require.Len(t, f.ids(), 1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Empty(t, f.ids())
		take(t, p, "r2.1", wants("a", 1))
		require.Len(t, f.ids(), 1)
	})
}

// A backend without warm sandboxes has a nil pool.
func TestNoWarmPool(t *testing.T) {
	t.Parallel()

	var p *host.WarmPool
	require.False(t, p.Take(t.Context(), "r1.1", wants("a", 1), rollout.Sandbox{}, nil))
	p.MakeRoom(t.Context())
}

// The start of a warm sandbox waits until no agent starts.
func TestStartsIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		starts := host.NewStarts(2, nil)
		release, err := starts.Acquire(t.Context(), host.StartAgent)
		require.NoError(t, err)

		idle := make(chan error, 1)
		go func() { idle <- starts.Idle(t.Context()) }()

		time.Sleep(time.Second)
		require.Empty(t, idle)
		release()
		require.NoError(t, <-idle)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		_, err = starts.Acquire(t.Context(), host.StartAgent)
		require.NoError(t, err)
		require.True(t, fault.Is(starts.Idle(ctx), fault.Unavailable))
		require.NoError(t, (*host.Starts)(nil).Idle(ctx))
	})
}

// Warm sandboxes use only the capacity that rollouts leave free.
func TestSpare(t *testing.T) {
	t.Parallel()

	l := &living{}

	room := host.NewCapacity(host.CapacityOptions{Slots: 3, Total: memory(100), Default: memory(40), Sandboxes: l})
	for n, want := range []int{2, 1, 0, 0} {
		l.set(n)

		spare, err := room.Spare(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, spare, "%d rollouts", n)
	}

	l.set(0)

	release, err := room.Claim(t.Context(), host.Claim{ID: "r.1", Size: memory(30)})
	require.NoError(t, err)

	defer release()

	spare, err := room.Spare(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, spare)
}
