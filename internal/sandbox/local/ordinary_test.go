package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/local"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

const ordinaryID = 65534

// A worker that is not root creates sandboxes too, with the same probe and fewer guarantees.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.Chown(data, ordinaryID, ordinaryID))
	self, err := os.Executable()
	require.NoError(t, err)
	binary, helper := filepath.Join(dir, "worker"), filepath.Join(dir, "sandboxd")
	for to, from := range map[string]string{binary: self, helper: sandboxdPath} {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, content, 0o755))
	}
	worker := startWorkerAs(t, job{
		Dir: data, Sandboxd: helper, IDs: []string{"r.1", "r.2"}, Lease: 10 * time.Minute,
		Script: "id -u; cat /etc/shadow; [ -w /proc/sys/kernel/core_pattern ] && echo writable; sleep infinity",
	}, binary, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}})

	// Root attaches to the same sandbox with its own driver.
	d := open(t, local.Options{Dir: data})
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
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.Chown(data, ordinaryID, ordinaryID))
	self, err := os.Executable()
	require.NoError(t, err)
	binary, helper := filepath.Join(dir, "suite"), filepath.Join(dir, "sandboxd")
	for to, from := range map[string]string{binary: self, helper: sandboxdPath} {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, content, 0o755))
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run="+ordinaryTests, "-test.timeout=15m")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), sandboxdEnv+"="+helper, "TMPDIR="+data, "HOME="+data)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
