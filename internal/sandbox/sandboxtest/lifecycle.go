package sandboxtest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

func lifecycleTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"CreateTwice":        createTwice,
		"CreateAtOnce":       createAtOnce,
		"CreateAgain":        createAgain,
		"AttachElsewhere":    attachElsewhere,
		"AttachNothing":      attachNothing,
		"BadID":              badID,
		"CallAfterDestroy":   callAfterDestroy,
		"DestroyTwice":       destroyTwice,
		"List":               list,
		"LeaseRunsOut":       leaseRunsOut,
		"LeaseRenewed":       leaseRenewed,
		"CancelKeepsSandbox": cancelKeepsSandbox,
		"Inspect":            inspect,
		"EndsWhileWaited":    endsWhileWaited,
	}
}

// A create that is asked for again, because its answer was lost, finds the sandbox with all that is in it.
func createTwice(t *testing.T, h Harness) {
	p := h.place(t)
	started := p.StartBash("kept", "sleep infinity")
	again, err := p.Backend.Create(t.Context(), p.ID(), rollout.Sandbox{}, nil)
	require.NoError(t, err)
	st, err := again.Status(t.Context(), "kept")
	require.NoError(t, err)
	require.True(t, st.Running)
	require.Equal(t, started.PID, st.PID)
}

// Two workers may both believe that the activity is theirs.
func createAtOnce(t *testing.T, h Harness) {
	id := "test-" + rand.Text()
	first := sandbox.New(h.Open(t), sandbox.Options{Defaults: small(driver.Spec{})})
	t.Cleanup(func() { destroy(t, first, id) })

	begun := make([]time.Time, 4)

	var callers errgroup.Group

	for i := range begun {
		b := sandbox.New(h.Open(t), sandbox.Options{Defaults: small(driver.Spec{})})

		callers.Go(func() error {
			s, err := b.Create(t.Context(), id, rollout.Sandbox{}, nil)
			if err != nil {
				return err
			}

			info, err := s.Info(t.Context())
			begun[i] = info.StartedAt

			return err
		})
	}

	require.NoError(t, callers.Wait())

	for _, b := range begun {
		require.Equal(t, begun[0], b, "all found the same one")
	}
}

// After its end a sandbox of the same id is a fresh one.
func createAgain(t *testing.T, h Harness) {
	p := h.place(t)
	require.Zero(t, p.Bash("touch /home/user/old").ExitCode)
	require.NoError(t, p.Backend.Destroy(t.Context(), p.ID()))
	_, err := p.Backend.Create(t.Context(), p.ID(), rollout.Sandbox{}, nil)
	require.NoError(t, err)
	require.NotZero(t, p.Bash("ls /home/user/old").ExitCode)
}

// Another worker sees the process go on, and reads on where the first one had stopped.
func attachElsewhere(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("job", "echo one; until [ -e /tmp/go ]; do sleep 0.01; done; echo two; exit 7")
	p.Says("job", "one\n")

	other, err := sandbox.New(h.Open(t), sandbox.Options{}).Attach(t.Context(), p.ID())
	require.NoError(t, err)
	require.NoError(t, other.WriteFile(t.Context(), "/tmp/go", newText(""), 0o644))
	st, err := other.Wait(t.Context(), "job", Patience)
	require.NoError(t, err)
	require.Equal(t, 7, st.ExitCode)
	chunk, err := other.Log(t.Context(), "job", "stdout", 4, 100)
	require.NoError(t, err)
	require.Equal(t, "two\n", string(chunk.Data))
	require.True(t, chunk.EOF)
}

func attachNothing(t *testing.T, h Harness) {
	_, err := sandbox.New(h.Open(t), sandbox.Options{}).Attach(t.Context(), "missing-"+rand.Text())
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
}

func badID(t *testing.T, h Harness) {
	b := sandbox.New(h.Open(t), sandbox.Options{})
	for _, id := range []string{"", "..", "../x", "a/b", ".hidden", "a b", "a\x00"} {
		_, err := b.Create(t.Context(), id, rollout.Sandbox{}, nil)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%q: %v", id, err)
		require.Equal(t, fault.Invalid, fault.KindOf(b.Destroy(t.Context(), id)), "%q", id)
	}
}

func callAfterDestroy(t *testing.T, h Harness) {
	p := h.place(t)
	p.Bash("true")
	require.NoError(t, p.Backend.Destroy(t.Context(), p.ID()))
	_, err := p.Status(t.Context(), "bash")
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
	require.Equal(t, fault.SandboxLost, fault.KindOf(p.Renew(t.Context(), time.Minute)))
	err = p.Backend.ServeModel(t.Context(), p.ID(), nil, func() { assert.Fail(t, "nothing is served") })
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
}

func destroyTwice(t *testing.T, h Harness) {
	p := h.place(t)
	require.NoError(t, p.Backend.Destroy(t.Context(), p.ID()))
	require.NoError(t, p.Backend.Destroy(t.Context(), p.ID()))
	require.NoError(t, p.Backend.Destroy(t.Context(), "never-"+rand.Text()))
}

func list(t *testing.T, h Harness) {
	b := sandbox.New(h.Open(t), sandbox.Options{Defaults: small(driver.Spec{})})
	id := "test-" + rand.Text()
	labels := map[string]string{driver.LabelRollout: "r1", driver.LabelAttempt: "2", driver.LabelPurpose: "agent"}
	before := time.Now()
	_, err := b.Create(t.Context(), id, rollout.Sandbox{}, labels)
	require.NoError(t, err)
	t.Cleanup(func() { destroy(t, b, id) })

	info := find(t, h, id)
	require.NotNil(t, info)
	require.Equal(t, labels, info.Labels)
	require.WithinRange(t, info.CreatedAt, before.Add(-time.Second), time.Now().Add(time.Second))
	require.NoError(t, b.Destroy(t.Context(), id))
	require.Nil(t, find(t, h, id))
}

func find(t *testing.T, h Harness, id string) *driver.Info {
	t.Helper()
	infos, err := sandbox.New(h.Open(t), sandbox.Options{}).List(t.Context())
	require.NoError(t, err)

	for _, info := range infos {
		if info.ID == id {
			return &info
		}
	}

	return nil
}

// An orphan dies by itself, and nothing of it is listed.
func leaseRunsOut(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("job", "sleep infinity")
	p.EndLease()
	p.Eventually(func() bool {
		_, err := p.Backend.Attach(t.Context(), p.ID())
		return fault.Is(err, fault.SandboxLost)
	}, "the sandbox ends")
	require.Nil(t, find(t, h, p.ID()))
	_, err := p.Backend.Create(t.Context(), p.ID(), rollout.Sandbox{}, nil)
	require.NoError(t, err, "a dead one is created again")
}

func leaseRenewed(t *testing.T, h Harness) {
	p := New(t, h.Open(t), driver.Spec{Lease: Patience})
	require.NoError(t, p.Renew(t.Context(), time.Hour))
	require.Equal(t, fault.Invalid, fault.KindOf(p.Renew(t.Context(), 0)))
	require.Equal(t, fault.Invalid, fault.KindOf(p.Renew(t.Context(), -time.Second)))
	require.Zero(t, p.Bash("true").ExitCode)
}

// A worker that shuts down must not report its sandboxes as lost.
func cancelKeepsSandbox(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("job", "sleep infinity")

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)

	_, err := p.Wait(ctx, "job", Patience)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	st, err := p.Status(t.Context(), "job")
	require.NoError(t, err)
	require.True(t, st.Running)
}

func inspect(t *testing.T, h Harness) {
	p := h.place(t)
	p.Bash("true")
	u, err := p.Backend.Inspect(t.Context(), p.ID())
	require.NoError(t, err)
	require.LessOrEqual(t, u.OOMKills, 0)
	require.NotZero(t, u.PeakMemoryBytes)
	require.NotZero(t, u.CPU)
}

// A caller that waits for a process learns at once that its sandbox is gone.
func endsWhileWaited(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("job", "echo up; sleep infinity")
	p.Says("job", "up\n")

	waited := make(chan error, 1)

	go func() {
		_, err := p.Wait(t.Context(), "job", Patience)
		waited <- err
	}()

	require.NoError(t, p.Backend.Destroy(t.Context(), p.ID()))

	err := <-waited
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
}
