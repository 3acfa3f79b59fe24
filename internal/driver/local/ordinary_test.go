package local_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// A worker that is not root creates sandboxes too, with the same probe and fewer guarantees.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	user := sandboxtest.OrdinaryUser(t, sandboxdPath)
	worker := startWorkerAs(t, job{
		Dir: user.Dir, Sandboxd: user.Sandboxd, IDs: []string{"r.1", "r.2"}, Lease: 10 * time.Minute,
		Script: "id -u; cat /etc/shadow; [ -w /proc/sys/kernel/core_pattern ] && echo writable; sleep infinity",
	}, user.Test, user.Attr)

	// Root attaches to the same sandbox with its own driver.
	d := open(t, local.Options{Dir: user.Dir})
	b := sandbox.New(d, sandbox.Options{})
	p := sandboxtest.Attach(t, b, "r.1")
	p.Says("job", "1000\n")
	kill9(t, worker)
	require.Zero(t, p.Bash("true").ExitCode)

	for _, id := range []string{"r.1", "r.2"} {
		require.NoError(t, d.Destroy(t.Context(), id))
	}

	infos, err := d.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, infos)
}

// ordinaryTests are the tests of this package that need neither root nor a compiler.
const ordinaryTests = "^Test(Suite|SuiteOfAnImage|Image|IsolationOfAnImage|ImageIsPrivate|HostileImage|SupervisorIsProtected|LimitsOfSandboxd|HostIsUnreachable|OwnNamespaces|RootIsReadOnly|DisksAreBounded)$/" +
	"^(Users|Process|Kill|Model|Limits)$"

// The suite and the isolation tests pass for an ordinary user too, whose sandboxes have one user for all processes.
func TestSuiteOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	user := sandboxtest.OrdinaryUser(t, sandboxdPath)
	cmd := exec.CommandContext(t.Context(), user.Test, "-test.run="+ordinaryTests, "-test.timeout=15m")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), sandboxdEnv+"="+user.Sandboxd, "TMPDIR="+user.Dir, "HOME="+user.Dir)
	cmd.SysProcAttr = user.Attr
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
