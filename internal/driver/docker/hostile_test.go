package docker_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// hostileImage fills an image that has an entry of its own wherever the sandbox mounts something.
func hostileImage(folder string) error {
	for _, p := range []string{"opt/rolloutd/sandboxd", "opt/rolloutd/bin/run-as-agent/x", "opt/rolloutd/agents/evil", "opt/rolloutd/copies/0/x"} {
		if err := os.MkdirAll(filepath.Join(folder, p), 0o700); err != nil {
			return err
		}
	}

	for p, to := range map[string]string{
		"home":                 "/etc",
		"verifier":             "/home/user",
		"tmp":                  "/proc",
		"run":                  "/etc",
		"opt/rolloutd/control": "/tmp",
		"etc/group":            "/proc/1/environ",
	} {
		at := filepath.Join(folder, p)
		if err := errors.Join(os.RemoveAll(at), os.Symlink(to, at)); err != nil {
			return err
		}
	}

	for _, program := range []string{"bash", "cat"} {
		if err := os.Chmod(filepath.Join(folder, "usr/bin", program), 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
			return err
		}
	}

	return os.WriteFile(filepath.Join(folder, "evil.sh"), []byte("echo evil\n"), 0o600)
}

// An image decides neither what starts, nor its user, nor where the sandbox's files are, nor the sandbox's labels.
func TestHostileImage(t *testing.T) {
	t.Parallel()
	importApp(
		t,
		"hostile:1",
		func(folder string) { require.NoError(t, hostileImage(folder)) },
		`ENTRYPOINT ["/evil.sh"]`,
		`CMD ["/evil.sh"]`,
		"USER 12345",
		"WORKDIR /nowhere",
		`HEALTHCHECK --interval=1s CMD /evil.sh`,
		"ENV LD_PRELOAD=/evil.so LD_LIBRARY_PATH=/evil BASH_ENV=/evil.sh ENV=/evil.sh HOME=/evil PATH=/evil GODEBUG=madvdontneed=x GOMAXPROCS=x",
		"LABEL dev.rolloutd.sandbox=another dev.rolloutd.owner=another dev.rolloutd.state=x dev.rolloutd.base=x dev.rolloutd.copies=[1,2]",
		"EXPOSE 80",
	)

	for _, s := range []rollout.Sandbox{{Image: "hostile:1"}, {Image: "hostile:1", Workdir: "/app"}} {
		p := place(t, s)
		ran := p.Bash(
			"id -u; pwd; echo $HOME; echo x > ~/x; echo x > /tmp/x; ls -d /home/user /tmp /run /verifier; readlink /home /tmp /run /opt/rolloutd/bin/run-as-agent; env | grep -c evil; cat /etc/group",
		)
		require.Equal(
			t,
			"1000\n/home/user\n/home/user\n/home/user\n/run\n/tmp\n/verifier\n/opt/rolloutd/sandboxd\n0\nuser:x:1000:\nverifier:x:1001:\n",
			ran.Stdout,
			ran.Stderr,
		)

		v := p.User(wire.VerifierUser)
		require.Equal(t, "1001\n1000\n", v.Bash("id -u; run-as-agent bash -c 'id -u'").Stdout)
		require.Equal(t, "0\n", p.Bash("grep -E '^Cap' /proc/self/status | grep -vc 0000000000000000").Stdout)
		require.Equal(t, "1000\n", p.Bash("bash -p -c 'id -u'").Stdout, "a mode gives no rights")
		infos, err := p.Backend.List(t.Context())
		require.NoError(t, err)
		require.Len(t, infos, 1)
		require.Equal(t, p.ID(), infos[0].ID)
		require.Equal(t, 64, infos[0].HomeMiB)
	}
}

// The agent and the verifier's commands cannot reach sandboxd, the engine's connections into the sandbox or
// the machine.
func TestAttacksFromWithin(t *testing.T) {
	t.Parallel()
	p := place(t, rollout.Sandbox{})

	v := p.User(wire.VerifierUser)
	for _, script := range []string{
		"/opt/rolloutd/sandboxd attach /opt/rolloutd/control/control.sock < /dev/null", "ls /opt/rolloutd/control", "cat /opt/rolloutd/control/control.sock",
		"cat /proc/1/environ", "cat /proc/1/maps", "head -c1 /proc/1/mem", "ls /proc/1/fd/", "ls /proc/1/root/", "ls /proc/1/cwd/", "echo 1000 > /proc/1/oom_score_adj",
		"cat /proc/1/auxv", "cat /proc/1/stack", "prlimit --pid 1 --nofile=1",
		"echo x > /proc/sys/kernel/core_pattern", "echo b > /proc/sysrq-trigger", "cat /proc/kcore", "head -c1 /proc/kmsg", "echo x > /proc/sys/vm/drop_caches",
		"echo x > /sys/kernel/uevent_helper", "echo x > /sys/fs/cgroup/cgroup.procs", "echo x > /sys/fs/cgroup/memory.max", "echo x > /sys/power/state",
		"head -c1 /dev/mem", "head -c1 /dev/sda", "head -c1 /dev/kmsg", "ls /dev/fuse", "ls /dev/kvm", "echo x > /dev/new", "ls /var/run/docker.sock", "ls /run/docker.sock",
		"mv /opt/rolloutd/sandboxd /tmp", "echo x > /opt/rolloutd/bin/x", "echo x >> /etc/passwd", "echo x > /etc/ld.so.preload", "exec 3<>/dev/tcp/10.0.2.2/22", "exec 3<>/dev/tcp/169.254.169.254/80",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
		require.NotZero(t, v.Bash("run-as-agent bash -c '"+script+"'").ExitCode, script)
	}

	p.Bash("kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1; kill -9 -1")
	require.Equal(t, "alive\n", p.Bash("echo alive").Stdout)
}
