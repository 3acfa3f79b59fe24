package e2b_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/e2b"
	"github.com/rolloutd/rolloutd/internal/driver/e2b/e2btest"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/filelock"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// small returns a spec that belongs to no rollout.
func small() driver.Spec {
	return driver.Spec{CPU: 1, MemoryMiB: 512, PIDs: 64, HomeMiB: 64, TmpMiB: 16, Lease: time.Hour}
}

// creations returns the recorded requests to create a sandbox.
func creations(s *e2btest.Server) []string {
	return slices.DeleteFunc(
		s.Requests(),
		func(r string) bool { return r != "POST /v2/sandboxes" && r != "POST /sandboxes" },
	)
}

// A control plane with only version 1 of the API is asked for version 2 once.
func TestFirstVersionOfTheAPI(t *testing.T) {
	t.Parallel()
	s := e2btest.ForTest(t)
	s.OnlyV1 = true
	d := open(t, options(t, s))
	require.NoError(t, d.Create(t.Context(), "one", small()))
	require.NoError(t, d.Create(t.Context(), "two", small()))
	require.Equal(t, []string{"POST /v2/sandboxes", "POST /sandboxes", "POST /sandboxes"}, creations(s))
	// needs a token, which the fake returns only on request
	conn, err := d.Dial(t.Context(), "two")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// A creation that is refused by the rate limit is retried when the service allows it. A creation that
// exceeds the quota fails at once.
func TestRateAndQuota(t *testing.T) {
	t.Parallel()
	s := e2btest.ForTest(t)
	s.MaxSandboxes = 1
	s.Refuse(http.StatusTooManyRequests, "1")
	d := open(t, options(t, s))
	require.NoError(t, d.Create(t.Context(), "one", small()))
	require.Len(t, creations(s), 2)
	err := d.Create(t.Context(), "two", small())
	require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "the quota of the E2B account is used up")
	require.Len(t, creations(s), 3)
	require.NoError(t, d.Destroy(t.Context(), "one"))
	require.NoError(t, d.Create(t.Context(), "two", small()))
}

// A refused key is reported at the start, and no error contains the key.
func TestRefusedKey(t *testing.T) {
	t.Parallel()
	o := options(t, e2btest.ForTest(t))
	o.Key = "e2b_hunter2"

	d := open(t, o)
	for _, err := range []error{d.Probe(t.Context()), d.Create(t.Context(), "one", small()), d.Destroy(t.Context(), "one")} {
		require.Equal(t, fault.Unauthorized, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "E2B refuses the API key of this worker (E2B_API_KEY)")
		require.NotContains(t, err.Error(), "hunter2")
	}

	require.Equal(t, driver.Fail, d.Check(t.Context())[0].Level)

	o.Key = ""
	_, err := e2b.New(o)
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
}

// Settings that an E2B machine does not support are refused with the field and leave no machine.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := e2btest.ForTest(t)
	d := open(t, options(t, s))

	b := sandbox.New(d, sandbox.Options{Defaults: small()})
	for want, spec := range map[string]rollout.Sandbox{
		"not possible on the backend e2b":        {User: rollout.UserRoot},
		"cannot be the workdir":                  {Workdir: "/srv"},
		"or be graded on the backend e2b":        {GradePaths: []string{"/srv"}},
		"image_env: is not possible":             {ImageEnv: true},
		"env: is not possible":                   {Env: map[string]string{"A": "1"}},
		"must be the name of a template of E2B":  {Image: "../x?y"},
		`E2B has no template "missing"`:          {Image: "missing"},
		"have 2 cores, but the task needs 3":     {CPU: 3},
		"have 2048 MiB, but the task needs 4096": {MemoryMiB: 4096},
	} {
		_, err := b.Create(t.Context(), "bad", spec, nil)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, want)
	}

	require.Empty(t, s.Machines())

	for _, f := range d.Check(t.Context()) {
		require.Equal(t, driver.OK, f.Level, "%s: %s", f.Name, f.Detail)
	}
}

// The API key is sent only to the configured address: a redirect is a refusal.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()

	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s came with the key %q", r.URL, r.Header.Get(e2b.KeyHeader))
	}))
	defer elsewhere.Close()

	from := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer from.Close()

	o := options(t, e2btest.ForTest(t))
	o.APIURL = from.URL
	require.Equal(t, fault.Unavailable, fault.KindOf(open(t, o).Probe(t.Context())))
}

// A creation whose response was lost leaves a machine without sandboxd. The next creation with that id ends
// the machine. A third one finds the machine of the second.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := e2btest.ForTest(t)
	o := options(t, s)
	require.NoError(t, open(t, o).Create(t.Context(), "one", small()))

	var meta map[string]string
	for _, meta = range s.Machines() {
	}

	require.NoError(t, open(t, o).Destroy(t.Context(), "one"))

	control := e2b.NewAPIClient(e2b.APIOptions{URL: s.URL, Key: s.Key, CreateRate: 10, HTTP: http.DefaultClient})
	lost, err := control.Create(t.Context(), e2b.CreateRequest{Template: e2btest.Template, Timeout: 60, Metadata: meta})
	require.NoError(t, err)

	require.NoError(t, open(t, o).Create(t.Context(), "one", small()))
	require.NotContains(t, s.Machines(), lost.ID)
	require.Len(t, s.Machines(), 1)
	before := creations(s)

	require.NoError(t, open(t, o).Create(t.Context(), "one", small()))
	require.Equal(t, before, creations(s))
}

// A machine in which sandboxd does not listen yet is left alone while its creator holds the lock. Without a
// creator it is ended, and the sandbox is lost.
func TestDialDuringCreation(t *testing.T) {
	t.Parallel()
	s := e2btest.ForTest(t)
	d := open(t, options(t, s))
	require.NoError(t, d.Create(t.Context(), "one", small()))

	var meta map[string]string
	for _, meta = range s.Machines() {
	}

	require.NoError(t, d.Destroy(t.Context(), "one"))

	control := e2b.NewAPIClient(e2b.APIOptions{URL: s.URL, Key: s.Key, CreateRate: 10, HTTP: http.DefaultClient})
	_, err := control.Create(t.Context(), e2b.CreateRequest{Template: e2btest.Template, Timeout: 3600, Metadata: meta})
	require.NoError(t, err)

	creator, err := filelock.Acquire(d.LockOf("one"))
	require.NoError(t, err)
	_, err = d.Dial(t.Context(), "one")
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.Len(t, s.Machines(), 1)
	require.NoError(t, creator.Release())
	_, err = d.Dial(t.Context(), "one")
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
	require.Empty(t, s.Machines())
}

// If the service has ended a machine, its sandbox is lost at once and permanently. Its lease cannot be renewed.
func TestMachineEnds(t *testing.T) {
	t.Parallel()
	s := e2btest.ForTest(t)

	p := sandboxtest.New(t, open(t, options(t, s)), driver.Spec{})
	for id := range s.Machines() {
		require.NoError(t, s.Kill(id))
	}

	_, err := p.Info(t.Context())
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
	require.Equal(t, fault.SandboxLost, fault.KindOf(p.Renew(t.Context(), time.Hour)))
	_, err = p.Backend.Create(t.Context(), p.ID(), rollout.Sandbox{}, nil)
	require.NoError(t, err)
}

// Processes of a sandbox see no network, process or socket of their machine, and write only to the sized folders.
func TestIsolation(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, open(t, options(t, e2btest.ForTest(t))), driver.Spec{})
	require.Equal(t, "lo:\n", p.Bash("tail -n +3 /proc/net/dev | awk '{print $1}'").Stdout)
	require.Equal(t, "Seccomp:2\n", p.Bash("grep Seccomp: /proc/self/status | tr -d '\t'").Stdout)
	require.Empty(t, p.Bash("ls /sys").Stdout)
	require.Equal(t, "0\n1\n2\n3\n", p.Bash("ls /proc/self/fd").Stdout, "none of the cgroups'")
	require.NotZero(t, p.Bash("ls /opt/rolloutd/control").ExitCode)

	for _, path := range []string{"/x", "/etc/x", "/opt/rolloutd/x", "/dev/x", "/proc/sys/kernel/hostname", "/root/x", "/sys/x"} {
		require.NotZero(t, p.Bash("echo x > "+path).ExitCode, path)
	}

	require.Equal(
		t,
		"full null random tty urandom zero",
		strings.TrimSpace(p.Bash(`cd /dev; for d in *; do [ -c $d ] && [ ! -L $d ] && echo -n "$d "; done`).Stdout),
	)
	ran := p.Bash(
		"for i in 1 2; do head -c 40M /dev/zero > /home/user/$i; done; df -m /home/user | tail -1 | awk '{print $2}'",
	)
	require.Contains(t, ran.Stderr, "No space left")
	require.Equal(t, "64\n", ran.Stdout)
	require.True(
		t,
		strings.HasPrefix(p.Bash("id").Stdout, "uid=1000(user) gid=1000(user)"),
		"the agent is no user of the machine",
	)
}

// A verifier writes its reward and reads its tests where the template has files at these paths.
func TestVerifierWhereTheTemplateHasItsPaths(t *testing.T) {
	t.Parallel()
	s := e2btest.ForTest(t)

	old := filepath.Join(t.TempDir(), "reward.txt")
	require.NoError(t, os.WriteFile(old, []byte("1\n"), 0o600))
	require.NoError(t, s.AddProgram("/logs/verifier/reward.txt", old))
	require.NoError(t, s.AddProgram("/tests/given", old))

	p := sandboxtest.New(t, open(t, options(t, s)), driver.Spec{
		Labels: map[string]string{driver.LabelPurpose: driver.PurposeVerifier},
	}).User(wire.VerifierUser)

	ran := p.Bash(`set -e; cat /tests/* /logs/verifier/* || echo nothing
		echo run > /verifier/tests/test.sh; cat /tests/test.sh; echo 0 > /logs/verifier/reward.txt; cat /verifier/logs/reward.txt`)
	require.Equal(t, "nothing\nrun\n0\n", ran.Stdout, ran.Stderr)
}

// A machine without cgroups reports no counts of killed or refused processes. It reports its full folders.
func TestMachineWithoutCgroups(t *testing.T) {
	t.Parallel()
	s := e2btest.ForTest(t)
	s.NoCgroups = true
	p := sandboxtest.New(t, open(t, options(t, s)), driver.Spec{})
	p.Bash("head -c 1G /dev/zero > /home/user/big")
	u, err := p.Backend.Inspect(t.Context(), p.ID())
	require.NoError(t, err)

	want := driver.NoUsage()
	want.FullFolders = []string{"/home/user"}
	require.Equal(t, want, u)
}
