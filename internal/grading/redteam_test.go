package grading_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/store"
)

// redteamEnv enables all cheats against all verifiers. Without it, one of eight cheats runs against one
// verifier. See make redteam.
const redteamEnv = "ROLLOUTD_REDTEAM"

func everyCheat() bool { return os.Getenv(redteamEnv) != "" }

// style is one way to write a verifier for the task that hello.py prints Hello.
type style struct {
	name     string
	verifier rollout.Verifier

	// it needs pytest, as if the setup had installed it
	packages bool
}

func styles() []style {
	const check = `import subprocess, unittest

class Test(unittest.TestCase):
    def test_hello(self):
        p = subprocess.run(["run-as-agent", "python3", "hello.py"], capture_output=True, cwd="/home/user/workdir")
        self.assertEqual((p.returncode, p.stdout), (0, b"Hello\n"))
`

	files := map[string]string{"test_hello.py": check}

	return []style{
		{name: "commands", verifier: rollout.Verifier{Commands: []string{
			`test "$(python3 -I hello.py)" = Hello`, "python3 hello.py > out.txt; printf 'Hello\\n' | diff out.txt -",
		}}},
		{
			name: "script",
			verifier: rollout.Verifier{
				Script: `if [ "$(run-as-agent python3 hello.py)" = Hello ]; then echo 1; else echo 0; fi > /home/user/logs/verifier/reward.txt
`,
			},
		},
		{name: "unittest", verifier: rollout.Verifier{Files: files, Script: `cd ~/workdir
python3 -P -m unittest discover -q -s "$TESTS_DIR" && echo 1 > "$VERIFIER_DIR/reward.txt"
`}},
		{name: "pytest", packages: true, verifier: rollout.Verifier{Files: files, Commands: []string{
			"python3 -m pytest -q -p no:cacheprovider /home/user/tests",
		}}},
	}
}

// attacked has the real sandboxes on this machine that the suite attacks.
type attacked struct {
	backend  *sandbox.Backend
	store    *store.Store
	grader   *grading.Grader
	separate bool

	// the description of each sandbox
	sandbox rollout.Sandbox

	// sandboxes for runs without work
	controls atomic.Int64
}

func newAttacked(t testing.TB) *attacked { t.Helper(); return newAttackedOf(t, 512) }

// newAttackedOf gives each sandbox the given memory in MiB.
func newAttackedOf(t testing.TB, memory int) *attacked {
	t.Helper()
	d, err := local.New(local.Options{Dir: filepath.Join(t.TempDir(), "sandboxes"), SandboxdPath: sandboxdPath})
	require.NoError(t, err)

	return newAttackedIn(t, d, memory, rollout.Sandbox{})
}

func newAttackedIn(t testing.TB, d driver.Driver, memory int, s rollout.Sandbox) *attacked {
	t.Helper()
	blobs, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = blobs.Close() })

	a := &attacked{store: blobs, sandbox: s, backend: sandbox.New(d, sandbox.Options{Defaults: driver.Spec{
		MemoryMiB: memory, HomeMiB: 64, TmpMiB: 32, PIDs: 128, Lease: time.Hour, // no worker renews it
	}})}
	t.Cleanup(a.destroyAll)
	a.grader = &grading.Grader{Store: blobs, Sandboxes: a, Logger: slog.New(slog.DiscardHandler)}
	sb, _, err := a.create(t.Context(), "probe.1", driver.PurposeAgent)
	require.NoError(t, err)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)

	a.separate = info.SeparateUsers
	require.NoError(t, a.backend.Destroy(t.Context(), "probe.1"))

	return a
}

func (a *attacked) destroyAll() {
	all, _ := a.backend.List(context.Background())
	for _, sb := range all {
		_ = a.backend.Destroy(context.Background(), sb.ID)
	}
}

func (a *attacked) create(ctx context.Context, id, purpose string) (*sandbox.Sandbox, func(), error) {
	sb, err := a.backend.Create(ctx, id, a.sandbox, map[string]string{driver.LabelPurpose: purpose})
	return sb, func() {}, err
}

// Attach implements grading.Sandboxes. All attempts of a cheat use the same sandbox, each graded in another style.
func (a *attacked) Attach(ctx context.Context, id string) (*sandbox.Sandbox, func(), error) {
	cheat, _, _ := strings.Cut(id, ".")
	sb, err := a.backend.Attach(ctx, cheat+".1")

	return sb, func() {}, err
}

// CreateVerifier implements grading.Sandboxes.
func (a *attacked) CreateVerifier(
	ctx context.Context,
	t rollout.Target,
	_ rollout.Sandbox,
) (*sandbox.Sandbox, func(), error) {
	return a.create(ctx, t.VerifierID(), driver.PurposeVerifier)
}

// CreateControl implements grading.Sandboxes.
func (a *attacked) CreateControl(
	ctx context.Context,
	t rollout.Target,
	_ rollout.Sandbox,
) (*sandbox.Sandbox, func(), error) {
	a.controls.Add(1)

	sb, _, err := a.create(ctx, t.ControlID(), driver.PurposeVerifier)

	return sb, func() { _ = a.backend.Destroy(context.WithoutCancel(ctx), t.ControlID()) }, err
}

// Destroy implements grading.Sandboxes.
func (a *attacked) Destroy(ctx context.Context, id string) error { return a.backend.Destroy(ctx, id) }

// agent runs the shell commands of a cheat and leaves its processes running.
func (a *attacked) agent(t testing.TB, id string, c cheat) {
	t.Helper()
	sb, _, err := a.create(t.Context(), id+".1", driver.PurposeAgent)
	require.NoError(t, err)

	hello := c.hello
	if hello == "" {
		hello = "print('Bye')"
	}

	require.NoError(
		t,
		sb.WriteFile(t.Context(), "/home/user/workdir/hello.py", strings.NewReader(prelude+hello+"\n"), 0o644),
	)

	p := sandbox.BashCommand("-c", "cd ~; "+c.agent)
	_, err = sandbox.RunCommand(t.Context(), sb, "agent", p, &sandbox.CommandBudget{Total: 5 * time.Minute})
	require.NoError(t, err)
}

// grade grades the agent's work as attempt n+1 in style s.
func (a *attacked) grade(t testing.TB, id string, n int, s style, timeout time.Duration) grading.Record {
	t.Helper()

	target := rollout.Target{RolloutID: id, Attempt: n + 1}
	if s.packages {
		_, err := a.store.PutBytes(t.Context(), store.AttemptKey(id, n+1, store.Packages), pytestPackages(t))
		require.NoError(t, err)
	}

	record, err := a.grader.Grade(t.Context(), grading.Job{Target: target, Verifier: s.verifier, Timeout: timeout})
	require.NoError(t, err)
	require.NoError(t, a.backend.Destroy(t.Context(), target.VerifierID()))

	return record
}

// No cheat gets a higher reward than failed honest work, and no cheat turns the reward 0 into null.
func TestRedteam(t *testing.T) {
	t.Parallel()
	newAttacked(t).redteam(t, 8)
}

// The same holds in containers, where programs can read each other's command lines. No command line has the
// text of a command.
func TestRedteamInContainers(t *testing.T) {
	t.Parallel()
	a := newAttackedIn(t, containers(t, dockertest.ForTest(t)), 512, rollout.Sandbox{})
	a.agent(t, "reader", cheat{hello: "leak('/proc/[0-9]*/cmdline')"})
	require.Zero(t, *a.grade(t, "reader", 0, styles()[0], 5*time.Minute).Reward)
	a.redteam(t, 16)
}

// The same holds for an agent that is root in its image, because its work has no capability during grading.
func TestRedteamAsRoot(t *testing.T) {
	t.Parallel()
	d := containers(t, dockertest.RemappedForTest(t))
	newAttackedIn(t, d, 512, rollout.Sandbox{Image: containerImage, User: rollout.UserRoot}).redteam(t, 8)
}

// The same holds in machines of E2B.
func TestRedteamInMachines(t *testing.T) {
	t.Parallel()
	newAttackedIn(t, machines(t), 512, rollout.Sandbox{}).redteam(t, 16)
}

// redteam runs every cheat if redteamEnv is set, otherwise one in step.
func (a *attacked) redteam(t *testing.T, step int) {
	t.Helper()

	all := cheats()
	require.GreaterOrEqual(t, len(all), 65)
	t.Run("honest work", func(t *testing.T) {
		t.Parallel()
		a.agent(t, "honest", cheat{hello: "print('Hello')"})
		a.agent(t, "lazy", cheat{})

		for n, s := range available(t) {
			record := a.grade(t, "honest", n, s, 5*time.Minute)
			require.InDelta(t, 1.0, *record.Reward, 0, "%s: %+v", s.name, record)
			require.Zero(t, *a.grade(t, "lazy", n, s, 5*time.Minute).Reward, s.name)
		}
	})

	slots := make(chan struct{}, 3)

	for i, c := range all {
		asRoot := a.sandbox.User == rollout.UserRoot
		if c.needsUsers && !a.separate || c.root && !asRoot || !everyCheat() && i%step != 0 && !c.root {
			continue
		}

		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			slots <- struct{}{}
			defer func() { <-slots }()

			id := "cheat-" + c.id()

			a.agent(t, id, c)
			defer func() { _ = a.backend.Destroy(context.WithoutCancel(t.Context()), id+".1") }()

			timeout := 5 * time.Minute
			if c.hangs {
				timeout = 3 * time.Second
			}

			for n, s := range available(t) {
				if !everyCheat() && n != i/step%4 {
					continue
				}

				record := a.grade(t, id, n, s, timeout)
				require.NotNil(t, record.Reward, "%s: null: %+v", s.name, record)
				require.Zero(t, *record.Reward, "%s: %+v", s.name, record)
			}
		})
	}
}

// As an ordinary user the same holds for all cheats except those that need separate users.
func TestRedteamAsOrdinaryUser(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("TestRedteam has run as an ordinary user")
	}

	user := sandboxtest.OrdinaryUser(t, sandboxdPath)
	cmd := exec.CommandContext(t.Context(), user.Test, "-test.run", "^(TestRedteam|TestExhaustion)$")
	cmd.Dir = user.Dir
	cmd.Env = append(os.Environ(), sandboxdEnv+"="+user.Sandboxd, "TMPDIR="+user.Dir, "HOME="+user.Dir)
	cmd.SysProcAttr = user.Attr
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The verifier reads and changes the agent's files regardless of their mode. The agent's programs have no
// access to the verifier's files.
func TestUsersOfAGrading(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	if !a.separate {
		t.Skip("an ordinary user has no further user ids")
	}

	a.agent(t, "modes", cheat{
		agent: "mkdir workdir/d; echo secret > workdir/d/f; chmod 600 workdir/d/f; chmod 0 workdir/d; mkdir .ssh; chmod 700 .ssh",
	})

	v := rollout.Verifier{
		Commands: []string{
			`test "$(cat d/f)" = secret && test "$(stat -c %a d/f)" = 600 && test "$(stat -c %a d)" = 0`,
			"echo x > made.txt && cat made.txt && id -u | grep -qx 1000",
			"run-as-agent id -u | grep -qx 1000 && test $(id -u) = 1001 && test $HOME = /verifier/home",
			"! run-as-agent ls /verifier/tests /verifier/home /verifier/logs",
			`! run-as-agent sh -c 'ps -e -o args; cat /proc/[0-9]*/cmdline' | grep -q verifier-word`,
			"cat $TESTS_DIR/sub/want ~/tests/sub/want /home/user/tests/sub/want | grep -c wanted | grep -qx 3",
			`test -z "$(run-as-agent env | grep /verifier)"`,
			"grep -q 'CapEff:.*000000000000000a' /proc/self/status && run-as-agent grep -q 'CapEff:.*0000000000000000' /proc/self/status",
		},
		Files: map[string]string{"sub/want": "wanted\n"},
	}

	record := a.grade(t, "modes", 0, style{verifier: v}, 5*time.Minute)
	for _, c := range record.Commands {
		require.Zero(t, c.ExitCode, "%+v", c)
	}

	require.InDelta(t, 1.0, *record.Reward, 0)
}

// Git does not run commands from a repository's configuration for a verifier.
func TestGitOfAVerifier(t *testing.T) {
	t.Parallel()

	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}

	a := newAttacked(t)

	const (
		command = "sh -c 'echo 1 > /verifier/logs/ran'"
		runs    = `printf '#!/bin/sh\necho 1 > /verifier/logs/ran\n' > ~/workdir/run; chmod +x ~/workdir/run; `
		patch   = "--- a/hello.py\n+++ b/hello.py\n@@ -1 +1 @@\n-old\n+new\n"
	)

	for name, does := range map[string]string{
		"nothing":   "true",
		"fsmonitor": "git config core.fsmonitor ~/workdir/run",
		"hooks":     "mkdir .hooks; for h in post-index-change post-checkout; do cp run .hooks/$h; done; git config core.hooksPath .hooks",
		"filter":    `echo '* filter=f' > .gitattributes; git config filter.f.clean "` + command + `; cat"`,
		"diff":      `git config diff.external "` + command + `"`,
		"textconv":  `echo '* diff=d' > .gitattributes; git config diff.d.textconv "` + command + `"`,
	} {
		a.agent(t, name, cheat{agent: runs + "cd workdir; git init -q; echo old > hello.py; git add hello.py; " + does + "; touch hello.py"})

		v := rollout.Verifier{Files: map[string]string{"new.patch": patch, "want": "new\n"}, Script: `cd ~/workdir; git status && git checkout -q -- hello.py || exit
git apply $TESTS_DIR/new.patch; git diff --no-index $TESTS_DIR/want hello.py; (cd $TESTS_DIR; git --git-dir=$HOME/workdir/.git diff)
run-as-agent true; test "$(cat hello.py)" = new || exit
test -e $VERIFIER_DIR/ran; echo 0.$? > $VERIFIER_DIR/reward.txt`}
		record := a.grade(t, name, 0, style{verifier: v}, 5*time.Minute)
		require.NotNil(t, record.Reward, "%s: %+v", name, record)
		require.InDelta(t, 0.1, *record.Reward, 0, "%s: %+v", name, record)
	}
}

// A program of the work for awk or sed runs with the work, and reads what the verifier gives it.
func TestProgramsOfTheWorkForTools(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	if !a.separate {
		t.Skip("an ordinary user's verifier has the agent's user")
	}

	const check = `import subprocess
def out(*args): return subprocess.run(args, capture_output=True, text=True).stdout
assert out("awk", "-f", "double.awk", "/verifier/tests/in") == out("sed", "-nf", "double.sed", "/verifier/tests/in") == "42\n"
`

	tests := []string{
		`test "$(awk -f double.awk $TESTS_DIR/in)" = 42 && test "$(cat $TESTS_DIR/in | awk -f double.awk)" = 42`,
		`test "$(sed -n -f double.sed $TESTS_DIR/in)" = 42 && test "$(sed -n -f /dev/stdin in < double.sed)" = 42`,
		`test "$(awk '{print 2 * $1}' in)" = 42 && test "$(sed s/21/42/ $TESTS_DIR/in in | sort -u)" = 42 && awk -f $TESTS_DIR/is.awk in`,
		"python3 $TESTS_DIR/check.py",
	}
	files := map[string]string{"in": "21\n", "check.py": check, "is.awk": "{exit $1 != 21}"}

	a.agent(t, "honest", cheat{agent: "cd workdir; echo 21 > in; echo '{print 2 * $1}' > double.awk; echo s/21/42/p > double.sed"})
	record := a.grade(t, "honest", 0, style{verifier: rollout.Verifier{Commands: tests, Files: files}}, time.Minute)
	require.InDelta(t, 1, *record.Reward, 0, "%+v", record)

	a.agent(t, "cheat", cheat{
		agent: `cd workdir; echo 21 > in; echo 'BEGIN {system("touch /verifier/logs/mine")}' | tee is.awk > double.awk; printf '1e touch /verifier/logs/mine\nw /verifier/logs/mine\n' > double.sed`,
	})

	for n, test := range tests {
		tests[n] = "(" + test + "); test ! -e $VERIFIER_DIR/mine"
	}

	record = a.grade(t, "cheat", 0, style{verifier: rollout.Verifier{Commands: tests, Files: files}}, time.Minute)
	require.InDelta(t, 1, *record.Reward, 0, "%+v", record)
}
