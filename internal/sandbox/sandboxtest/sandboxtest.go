// Package sandboxtest is the suite that every sandbox driver passes: what the rest of rolloutd relies on,
// tried through the portable sandbox. The sandboxes it makes need bash and the usual small programs,
// nothing else.
package sandboxtest

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Harness gives the suite the driver under test.
type Harness struct {
	// Open returns a driver over the same sandboxes at each call, as a worker that was started again would see them.
	Open func(t *testing.T) driver.Driver
	// ShowsVerifier says that the agent sees the command lines of the verifier's processes: the provider
	// gives no /proc that hides them.
	ShowsVerifier bool
	// AppImage is an image that was filled by FillAppImage; "": the driver takes neither a workdir nor
	// graded folders from an image.
	AppImage string
	// UsersImage is an image that was filled by FillUsersImage, with UsersImageUser and UsersImageWorkdir
	// as its user and its workdir; "": no agent of the driver is a user of its image.
	UsersImage string
	// Root says that the agents are root of an image, in which they may write anywhere.
	Root bool
	// Groups are those of the suite to run, for a driver that passes it as a whole in another way; nil: all.
	Groups []string
}

// Patience bounds every wait of the suite; on a machine that does anything at all it is never reached.
const Patience = 5 * time.Minute

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()

	groups := []struct {
		name  string
		tests map[string]func(*testing.T, Harness)
	}{
		{"Lifecycle", lifecycleTests()},
		{"Process", processTests()},
		{"Exec", execTests()},
		{"Kill", killTests()},
		{"Pause", pauseTests()},
		{"Output", outputTests()},
		{"Files", fileTests()},
		{"Tar", tarTests()},
		{"Model", modelTests()},
		{"Network", networkTests()},
		{"Ports", portTests()},
		{"Services", serviceTests()},
		{"Users", userTests()},
		{"Limits", limitTests()},
		{"Image", imageTests()},
		{"Accounts", accountTests()},
	}
	for _, g := range groups {
		if h.Groups != nil && !slices.Contains(h.Groups, g.name) {
			continue
		}

		for name, test := range g.tests {
			t.Run(g.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, h)
			})
		}
	}
}

// Place is a sandbox of one test.
type Place struct {
	*sandbox.Sandbox
	Backend *sandbox.Backend
	t       *testing.T
}

// New makes a sandbox that goes with the test. Zero fields of defaults are small ones, fit for a test.
func New(t *testing.T, d driver.Driver, defaults driver.Spec) *Place {
	t.Helper()

	b := sandbox.New(d, sandbox.Options{Defaults: small(defaults)})
	id := "test-" + rand.Text()
	s, err := b.Create(t.Context(), id, rollout.Sandbox{}, defaults.Labels)
	require.NoError(t, err)
	t.Cleanup(func() { destroy(t, b, id) })

	return &Place{Sandbox: s, Backend: b, t: t}
}

// Attach finds an existing sandbox and does not destroy it.
func Attach(t *testing.T, b *sandbox.Backend, id string) *Place {
	t.Helper()
	s, err := b.Attach(t.Context(), id)
	require.NoError(t, err)

	return &Place{Sandbox: s, Backend: b, t: t}
}

// User is the same sandbox for another user.
func (p *Place) User(name string) *Place {
	return &Place{Sandbox: p.As(name), Backend: p.Backend, t: p.t}
}

func (h Harness) place(t *testing.T) *Place {
	t.Helper()
	return New(t, h.Open(t), driver.Spec{})
}

func small(d driver.Spec) driver.Spec {
	if d.HomeMiB == 0 {
		d.HomeMiB = 64
	}

	if d.TmpMiB == 0 {
		d.TmpMiB = 16
	}

	if d.MemoryMiB == 0 {
		d.MemoryMiB = 512
	}

	if d.PIDs == 0 {
		d.PIDs = 128
	}

	return d
}

// destroy outlives the test's own context.
func destroy(t *testing.T, b *sandbox.Backend, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()

	require.NoError(t, b.Destroy(ctx, id))
}

// Ran is what came of a command.
type Ran struct {
	wire.Status
	Stdout, Stderr string
}

// Bash runs a script to its end.
func (p *Place) Bash(script string) Ran {
	p.t.Helper()

	name := "bash-" + rand.Text()
	p.StartBash(name, script)

	return p.End(name)
}

// StartBash starts a script under a name.
func (p *Place) StartBash(name, script string) wire.Status {
	p.t.Helper()
	st, err := p.Start(p.t.Context(), name, wire.Process{Argv: []string{"bash", "-c", script}})
	require.NoError(p.t, err)

	return st
}

// End waits for the process's end.
func (p *Place) End(name string) Ran {
	p.t.Helper()
	st, err := p.Wait(p.t.Context(), name, Patience)
	require.NoError(p.t, err)
	require.False(p.t, st.Running, "%s runs on and on", name)

	return Ran{Status: st, Stdout: p.output(st, "stdout"), Stderr: p.output(st, "stderr")}
}

// EndLease lets the lease of the sandbox run out. The sandbox may end before it answers.
func (p *Place) EndLease() {
	p.t.Helper()

	if err := p.Renew(p.t.Context(), time.Millisecond); !fault.Is(err, fault.SandboxLost) {
		require.NoError(p.t, err)
	}
}

func (p *Place) output(st wire.Status, stream string) string {
	p.t.Helper()
	out, err := p.Tail(p.t.Context(), st, stream, 1<<20)
	require.NoError(p.t, err)

	return string(out)
}

// Eventually waits until cond holds. It calls cond in the test's goroutine, so that a failed requirement in
// cond ends the test at once.
func (p *Place) Eventually(cond func() bool, what string) {
	p.t.Helper()

	for deadline := time.Now().Add(Patience); !cond(); time.Sleep(5 * time.Millisecond) {
		require.True(p.t, time.Now().Before(deadline), what)
	}
}

// Says waits until the process has written text to its stdout, and fails if the process ends before.
func (p *Place) Says(name, text string) {
	p.t.Helper()
	p.Eventually(func() bool {
		st, err := p.Status(p.t.Context(), name)
		require.NoError(p.t, err)
		out := p.output(st, "stdout")
		require.True(
			p.t,
			st.Running || out == text,
			"%s ended with code %d; it wrote %q instead of %q",
			name,
			st.ExitCode,
			out,
			text,
		)

		return out == text
	}, name+" says "+text)
}
