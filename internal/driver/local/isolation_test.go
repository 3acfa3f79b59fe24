package local_test

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// The worker's secrets and its data folder are not visible inside: not in an environment, a command line or a mount.
func TestWorkersSecretsAreNotVisible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startWorker(t, job{
		Dir:      dir,
		Sandboxd: sandboxdPath,
		IDs:      []string{"r.1"},
		Lease:    time.Hour,
		Script:   "sleep infinity",
	})
	d := open(t, local.Options{Dir: dir})
	b := sandbox.New(d, sandbox.Options{})

	t.Cleanup(func() { require.NoError(t, b.Destroy(cleanupContext(t), "r.1")) })
	p := sandboxtest.Attach(t, b, "r.1")
	secrets := strings.NewReader("canary-in-the-worker\n" + dir + "\n")
	require.NoError(t, p.WriteFile(t.Context(), "/tmp/secrets", secrets, 0o644))
	out := p.User(wire.VerifierUser).
		Bash("cd /proc; grep -lsaFf /tmp/secrets [0-9]*/environ [0-9]*/cmdline [0-9]*/mountinfo; cat [0-9]*/cmdline | tr '\\0' ' '")
	require.True(
		t,
		strings.HasPrefix(out.Stdout, "/opt/rolloutd/sandboxd serve"),
		"found or not listed: %s",
		out.Stdout,
	)
}

// Other processes cannot inspect or control the first process, even as the same user.
func TestSupervisorIsProtected(t *testing.T) {
	t.Parallel()

	p := place(t, driver.Spec{})
	for _, script := range []string{
		"cat /proc/1/environ", "ls /proc/1/fd", "head -c1 /proc/1/mem", "cat /proc/1/maps", "readlink /proc/1/exe", "cat /proc/1/stack",
		": > /proc/1/oom_score_adj", ": > /proc/1/fd/2", "ls /proc/1/root/", ": > /proc/1/comm",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
	}

	require.Empty(
		t,
		p.Bash("find / -xdev -name '*.sock' -o -type s 2>/dev/null; tail -n +2 /proc/net/unix | grep control").Stdout,
	)
}

// A sandbox reaches neither listeners on the host's addresses nor another sandbox.
func TestHostIsUnreachable(t *testing.T) {
	t.Parallel()
	p, neighbour := place(t, driver.Spec{}), place(t, driver.Spec{})
	neighbour.Eventually(func() bool {
		return neighbour.Bash("(exec 3<>/dev/tcp/127.0.0.1/7000)").ExitCode == 0
	}, "its model address is served")

	var script strings.Builder

	for _, l := range listeners(t) {
		host, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		fmt.Fprintf(&script, "(exec 3<>/dev/tcp/%s/%s) 2>/dev/null && echo reached %s %s\n", host, port, host, port)
	}

	name := fmt.Sprintf("rolloutd-test-%d", os.Getpid())
	abstract, err := net.Listen("unix", "@"+name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = abstract.Close() })
	script.WriteString(
		"grep " + name + " /proc/net/unix; ls -d /run/docker.sock /var/run/docker.sock /sys/* /root/* /home/[!u]* /etc/shadow /etc/ssh 2>/dev/null; true",
	)
	require.Empty(t, p.Bash(script.String()).Stdout)
}

// listeners listens on every address of this host.
func listeners(t *testing.T) []net.Listener {
	t.Helper()

	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)

	var list []net.Listener

	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLinkLocalUnicast() {
			continue
		}

		l, err := net.Listen("tcp", net.JoinHostPort(ip.IP.String(), "0"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })

		list = append(list, l)
	}

	require.NotEmpty(t, list)

	return list
}

// System calls that no sandbox needs are refused, for every way to make them.
func TestSystemCalls(t *testing.T) {
	t.Parallel()
	agents := t.TempDir()
	require.NoError(t, sandboxtest.Build(t.Context(), filepath.Join(agents, "tryout"), "./testdata/tryout"))
	p := sandboxtest.New(t, open(t, local.Options{AgentsDir: agents}), driver.Spec{})
	ran := p.Bash(local.AgentsMount + "/tryout")
	require.Zero(t, ran.ExitCode, ran.Stderr)

	for line := range strings.Lines(ran.Stdout) {
		name, said, _ := strings.Cut(strings.TrimSpace(line), ": ")
		want := "EPERM"

		switch name {
		case "clone3":
			// the C library falls back to clone
			want = "ENOSYS"
		case "io_setup":
			// programs fall back to other calls
			want = "ENOSYS"
		case "x32":
			// on other architectures the number is an ordinary one
			if runtime.GOARCH == "amd64" {
				want = "ENOSYS"
			}
		case "inet", "unix", "own prlimit":
			want = "open"
		case "trace forks", "trace forks, old", "trace forks, upon", "trace on", "trace, registers", "trace, system":
			// debuggers need these calls: the kernel accepts them and finds no such process
			want = "ESRCH"
		}

		require.Equal(t, want, said, name)
	}

	require.Equal(t, 41, strings.Count(ran.Stdout, "\n"))
}

// Each kind of namespace is the sandbox's own. When memory runs out, the kernel kills its processes before sandboxd.
func TestOwnNamespaces(t *testing.T) {
	t.Parallel()
	p := place(t, driver.Spec{})

	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		host, err := os.Readlink("/proc/self/ns/" + kind)
		require.NoError(t, err)

		ran := p.Bash("readlink /proc/self/ns/" + kind)
		require.Zero(t, ran.ExitCode, ran.Stderr)
		require.NotEqual(t, host+"\n", ran.Stdout)
	}

	require.Equal(t, "500\n", p.Bash("cat /proc/self/oom_score_adj").Stdout)
}

// Programs verify the hosts that a task may reach with the certificates that the host trusts. They see no
// other file in the folder.
func TestCertificates(t *testing.T) {
	t.Parallel()

	const bundle = "/etc/ssl/certs/ca-certificates.crt"

	trusted, err := os.ReadFile(bundle)
	if err != nil {
		t.Skip("this machine has no certificates at " + bundle)
	}

	ran := place(t, driver.Spec{}).Bash("ls -A /etc/ssl /etc/ssl/certs; sha256sum < " + bundle + "; : > " + bundle)
	require.NotZero(t, ran.ExitCode, "it is read-only")
	require.Equal(
		t,
		fmt.Sprintf("/etc/ssl:\ncerts\n\n/etc/ssl/certs:\nca-certificates.crt\n%x  -\n", sha256.Sum256(trusted)),
		ran.Stdout,
	)
}

// Tasks and scripts call Python by either name.
func TestPythonHasBothNames(t *testing.T) {
	t.Parallel()

	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("this machine has no python3")
	}

	box := place(t, driver.Spec{})
	require.Equal(t, "3\n", box.Bash(`python -c 'import sys; print(sys.version_info[0])'`).Stdout)
}

// The root file system is read-only, and no file in it grants more rights.
func TestRootIsReadOnly(t *testing.T) {
	t.Parallel()

	p := place(t, driver.Spec{})
	for _, path := range []string{"/x", "/etc/x", "/usr/x", "/usr/bin/x", "/opt/x", "/opt/rolloutd/x", "/dev/x", "/home/x", "/var/x", "/proc/sys/kernel/hostname"} {
		require.NotZero(t, p.Bash("echo x > "+path).ExitCode, path)
	}

	require.Zero(
		t,
		p.Bash("for d in /home/user /home/user/workdir /tmp /dev/shm /run; do echo x > $d/x || exit 1; done").ExitCode,
	)
	require.Equal(
		t,
		"uid=1000(user) gid=1000(user) groups=1000(user)\n/home/user\nsandbox\n",
		p.Bash("id; pwd; uname -n").Stdout,
	)

	status := p.Bash("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\t'").Stdout
	for _, want := range []string{"CapPrm:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1", "Seccomp:2"} {
		require.Contains(t, status, want)
	}

	require.Empty(t, p.Bash(`awk '$6 !~ /nosuid/' /proc/self/mountinfo`).Stdout)
}

// Only the owner has access to the control socket: its folder and its file are private.
func TestControlSocketIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep")

	p := sandboxtest.New(t, open(t, local.Options{Dir: dir}), driver.Spec{})
	for path, want := range map[string]os.FileMode{
		dir:                        0o700,
		filepath.Join(dir, p.ID()): 0o700,
		filepath.Join(dir, p.ID(), "control.sock"): 0o600,
		filepath.Join(dir, p.ID(), "state.json"):   0o600,
	} {
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, st.Mode().Perm(), path)
	}
}

// Each running sandbox has a unique host user id, over all data folders.
func TestUserIDsAreUnique(t *testing.T) {
	t.Parallel()
	needRoot(t)

	seen := map[uint32]bool{}

	for range 3 {
		dir := t.TempDir()
		for range 2 {
			sandboxtest.New(t, open(t, local.Options{Dir: dir}), driver.Spec{})
		}

		uids := uidsOf(t, dir)
		require.Len(t, uids, 2)

		for uid := range uids {
			require.Greater(t, uid, uint32(1_000_000_000))
			require.False(t, seen[uid])
			seen[uid] = true
		}
	}
}

// The path of a data folder may be longer than a socket address.
func TestLongFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	p := sandboxtest.New(t, open(t, local.Options{Dir: dir}), driver.Spec{})
	require.Zero(t, p.Bash("true").ExitCode)
}
