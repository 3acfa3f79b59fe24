package sandboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/isolationprobe"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// User and workdir of the image of Harness.UsersImage.
const (
	UsersImageUser    = "app"
	UsersImageWorkdir = "/app"
)

// FillUsersImage fills the folder with the root file system of Harness.UsersImage. Its user app has the id
// that a verifier has elsewhere, and is in root's group and in another. The image has files at the paths of a verifier.
// It needs root.
func FillUsersImage(folder string) error {
	programs := append([]string{
		"chown", "chroot", "mknod", "mount", "setpriv", "timeout", "umount", "unshare",
	}, imagetest.Programs()...)

	err := errors.Join(imagetest.Fill(folder, programs), imagetest.Glibc(folder))
	for path, text := range map[string]string{
		"app/main": "original\n", "app/lib/part": "part\n", "srv/data/rows": "rows\n",
		"opt/tool/run.py": "run\n", "opt/rows": "rows\n",
		"tests/given": "image\n", "logs/verifier/reward.txt": "1\n",
		"home/user/given": "home\n", "home/user/app/main": "below home\n", "tmp/given": "tmp\n", "tmp/x/main": "below tmp\n",
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\napp:x:1001:0:App:/app:/bin/sh\nother:x:1000:1000::/:/bin/sh\n",
		"etc/group":  "root:x:0:\nshared:x:50:app\n",
	} {
		full := filepath.Join(folder, path)
		err = errors.Join(
			err,
			os.MkdirAll(filepath.Dir(full), 0o755),
			os.WriteFile(full, []byte(text), 0o600),
			os.Chmod(full, 0o644),
		)
	}

	for _, f := range []struct {
		name     string
		mode     os.FileMode
		uid, gid int
	}{{"mine", 0o700, 1001, 0}, {"ofgroup", 0o770, 7, 50}, {"closed", 0o700, 0, 0}} {
		full := filepath.Join(folder, f.name)
		err = errors.Join(err, os.Mkdir(full, 0o700), os.Chmod(full, f.mode), os.Chown(full, f.uid, f.gid))
	}

	return errors.Join(err, linkApp(folder))
}

// RootGroups are the groups of the suite that hold for an agent that is root of its image, with
// Harness.Root. Accounts has the rest.
func RootGroups() []string {
	return []string{
		"Lifecycle", "Process", "Exec", "Kill", "Output", "Files", "Tar", "Model", "Network", "Ports",
		"Services", "Limits",
	}
}

// AsRoot makes every sandbox of a driver for an agent that is root of that image.
type AsRoot struct {
	driver.Driver
	Image string
}

// Create implements driver.Driver.
func (d AsRoot) Create(ctx context.Context, id string, spec driver.Spec) error {
	spec.Image, spec.User = d.Image, rollout.UserRoot
	return d.Driver.Create(ctx, id, spec)
}

// Inspect implements driver.Inspector.
func (d AsRoot) Inspect(ctx context.Context, id string) (driver.Usage, error) {
	inspector, ok := d.Driver.(driver.Inspector)
	if !ok {
		return driver.NoUsage(), nil
	}

	return inspector.Inspect(ctx, id)
}

// accountTests are of agents that are root or another user of their image.
func accountTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Root":               rootOfAnImage,
		"RootClosed":         rootIsClosed,
		"RootConfined":       rootIsConfined,
		"RootBesideVerifier": rootBesideVerifier,
		"RootBesideOwnImage": rootBesideOwnImage,
		"RootPrivate":        rootIsPrivate,
		"RootGraded":         rootIsGraded,
		"RootElsewhere":      rootChangesElsewhere,
		"RootReplaces":       rootReplaces,
		"User":               userOfAnImage,
		"UserBesideVerifier": userBesideVerifier,
	}
}

// rooted is a sandbox of the image for an agent that is root in it.
func (h Harness) rooted(t *testing.T, purpose string) *Place {
	t.Helper()

	return h.account(t, purpose, rollout.Sandbox{
		User:       rollout.UserRoot,
		Workdir:    UsersImageWorkdir,
		GradePaths: []string{"/srv/data"},
	})
}

// asUser is a sandbox of the image for an agent that is the user that the image names.
func (h Harness) asUser(t *testing.T, purpose string) *Place {
	t.Helper()
	return h.account(t, purpose, rollout.Sandbox{User: rollout.UserOfImage, Workdir: rollout.WorkdirOfImage})
}

func (h Harness) account(t *testing.T, purpose string, s rollout.Sandbox) *Place {
	t.Helper()

	if h.UsersImage == "" {
		t.Skip("the driver has no agents that are users of an image")
	}

	s.Image = h.UsersImage

	return h.placeOf(t, purpose, s)
}

// Root of an image writes anywhere in it, gives files to other users and becomes them. The workdir is the image's.
func rootOfAnImage(t *testing.T, h Harness) {
	p := h.rooted(t, driver.PurposeAgent)
	ran := p.Bash(
		`set -e; cd ~/workdir; id -u; cat main; echo changed > main; cat /app/main; echo new > /usr/bin/new; echo conf > /etc/new
		chown 33:33 /etc/new; stat -c %u:%g:%a /etc/new /usr/bin/ls; rm /usr/bin/tee; mkdir -p /var/lib/x /tests; echo $PATH
		setpriv --reuid=33 --regid=33 --clear-groups id -u`,
	)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(
		t,
		"0\noriginal\nchanged\n33:33:644\n0:0:755\n/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rolloutd/bin\n33\n",
		ran.Stdout,
	)
	data, err := p.ReadFile(t.Context(), "/home/user/workdir/main", 100)
	require.NoError(t, err)
	require.Equal(t, "changed\n", string(data))
}

// An agent that closes the root folder keeps sandboxd neither from listing what listens nor from killing it.
func rootIsClosed(t *testing.T, h Harness) {
	p := h.rooted(t, driver.PurposeAgent)
	p.StartBash("job", "chmod 0 /; echo closed; sleep infinity")
	p.Says("job", "closed\n")

	_, err := p.Listeners(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.Kill(t.Context(), "job"))
	require.NoError(t, p.Freeze(t.Context()))
	require.NoError(t, p.KillAll(t.Context()))
}

// probed runs the start-up probe of the local driver in the sandbox.
func (p *Place) probed() []isolationprobe.Finding {
	p.t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)

	defer l.Close()

	ran := p.Bash("/opt/rolloutd/sandboxd probe " + l.Addr().String())
	require.Zero(p.t, ran.ExitCode, ran.Stderr)

	var findings []isolationprobe.Finding
	require.NoError(p.t, json.Unmarshal([]byte(ran.Stdout), &findings))
	require.NotEmpty(p.t, findings)

	return findings
}

// Root of an image is an unprivileged user of the machine: no way out is open to it, and neither sandboxd
// nor the mounts of the sandbox are in its reach.
func rootIsConfined(t *testing.T, h Harness) {
	p := h.rooted(t, driver.PurposeAgent)
	for _, f := range p.probed() {
		// which are those below
		require.Equal(t, f.Name != "keep capabilities", f.Refused, f.Name)
	}

	status := p.Bash("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\t'").Stdout
	for _, want := range []string{
		"CapInh:0000000000000000", "CapPrm:00000000000004fb", "CapBnd:00000000000004fb",
		"CapAmb:0000000000000000", "NoNewPrivs:1", "Seccomp:2",
	} {
		require.Contains(t, status, want)
	}

	require.NotRegexp(
		t,
		`(?m)^ +0 +0 `,
		p.Bash("cat /proc/self/uid_map /proc/self/gid_map").Stdout,
		"root is not the machine's",
	)

	for _, script := range []string{
		"mount -t tmpfs x /srv", "mount -o remount,rw /opt/rolloutd", "umount /proc", "umount /opt/rolloutd",
		"unshare -U true", "unshare -m true", "unshare -p true", "chroot / true", "mknod /dev/sda b 8 0",
		"mknod /app/mem c 1 1", "mknod /app/null c 1 3", "echo x > /opt/rolloutd/sandboxd",
		"rm /opt/rolloutd/sandboxd", "mv /opt/rolloutd /opt/old", "echo x > /dev/x",
		"echo x > /proc/sys/kernel/hostname", "echo x > /proc/sys/kernel/core_pattern",
		"echo 1 > /proc/sys/user/max_user_namespaces", "echo b > /proc/sysrq-trigger", "cat /proc/1/environ",
		"cat /proc/1/maps", "head -c1 /proc/1/mem", "ls /proc/1/fd/", "ls /proc/1/root/", "ls /proc/1/cwd/",
		"cat /proc/1/auxv", "cat /proc/1/stack", "echo 1 > /proc/1/oom_score_adj", "cat /proc/kcore",
		"dd if=/proc/kmsg bs=1 count=1", "echo x > /proc/1/clear_refs", "prlimit --pid 1 --nofile=1",
		"ls /sys/kernel", "ls /sys/fs/cgroup", "ls /opt/rolloutd/control/control.sock",
		"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -E 'enclos[e]|attac[h]'",
		"/opt/rolloutd/sandboxd attach /opt/rolloutd/control/control.sock < /dev/null",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
	}
	// As sandboxd's own user: it is not traced, read or ended.
	for _, script := range []string{
		"cat /proc/1/environ", "cat /proc/1/mem", "ls /proc/1/fd/", "prlimit --pid 1 --nofile=1",
		"echo 1 > /proc/1/oom_score_adj",
	} {
		require.NotZero(
			t,
			p.Bash("setpriv --reuid=65530 --regid=65530 --clear-groups bash -c '"+script+"'").ExitCode,
			script,
		)
	}
	// As root in sandboxd's group, to which /proc shows sandboxd: its files there are root's, but what is
	// behind them stays closed.
	for _, script := range []string{
		"cat /proc/1/environ", "cat /proc/1/maps", "head -c1 /proc/1/mem", "echo x > /proc/1/mem", "ls /proc/1/root/", "ls /proc/1/cwd/", "cat /proc/1/exe", "cat /proc/1/auxv", "cat /proc/1/stack",
		"cat /proc/1/syscall", "cat /proc/1/io", "head -c1 /proc/1/fd/*", "readlink /proc/1/fd/0", "echo 0 0 1 > /proc/1/uid_map", "echo x > /proc/1/comm", "echo 1 > /proc/1/timerslack_ns",
	} {
		require.NotZero(
			t,
			p.Bash("setpriv --regid=65530 --clear-groups timeout 9 bash -c '"+script+"'").ExitCode,
			script,
		)
	}

	require.Equal(
		t,
		"65530\n",
		p.Bash(
			"setpriv --reuid=65530 --regid=65530 --clear-groups bash -c 'id -u; kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1' 2>/dev/null",
		).Stdout,
	)
	p.Bash("kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1; kill -9 -1")
	require.Equal(t, "alive\n", p.Bash("echo alive").Stdout)
}

// Beside a verifier root has no capabilities, and the root file system is what the image has: graded work
// cannot replace a program of the verifier.
func rootBesideVerifier(t *testing.T, h Harness) {
	p := h.rooted(t, driver.PurposeVerifier)
	v := p.User(wire.VerifierUser)

	// what the image has at these paths neither hinders the verifier nor is in them
	require.Equal(t, "0\n", v.Bash("ls /tests/ /logs/verifier/ | grep -c -e given -e reward").Stdout)
	require.Zero(
		t,
		v.Bash(
			"echo expected > /verifier/tests/answer && echo 0 > /tests/reward && echo 1 > /logs/verifier/reward.txt && echo mine > /tmp/mine && echo mine > /tmp/unnamed && cat /verifier/logs/reward.txt",
		).ExitCode,
	)

	for _, script := range []string{
		"echo x > /usr/bin/diff", "rm /usr/bin/ls", "mv /usr /usr2", "echo x > /etc/ld.so.preload",
		"chmod 777 /etc", "echo x > /srv/new", "rm /tests", "cat /verifier/tests/answer", "ls /verifier/logs",
		"ls /verifier/home", "echo 1 > /verifier/logs/reward.txt", "ls /verifier/run",
		"mv /verifier/logs /verifier/old", "rm /tmp/mine", "mv /tmp/mine /tmp/yours",
		// a temporary file that a request names is handed over; this one is named by no request
		"echo x > /t*/unnamed",
		"echo x > /verifier/x", "chmod 777 /verifier/tests", "chmod 777 /tmp", "chown 1001:1001 /app/main",
		"ps -e | grep -q sandboxd", "setpriv --reuid=1001 true", "kill -9 1",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
		require.NotZero(t, v.Bash("run-as-agent bash -c "+quote(script)).ExitCode, script)
	}

	ran := v.Bash(
		"cd /home/user/workdir && run-as-agent bash -c 'id -u; pwd; echo built > out; echo more > /srv/data/new; grep ^Cap /proc/self/status' && cat /app/out",
	)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(
		t,
		"0\n/app\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nbuilt\n",
		ran.Stdout,
	)
	require.Contains(t, v.Bash("grep ^CapEff /proc/self/status; id -u").Stdout, "000000000000000a\n1001\n")
}

// A verifier may change everything of an image of its own, and has what that has for the tests. The work sees the changes
// elsewhere, and can make none.
func rootBesideOwnImage(t *testing.T, h Harness) {
	v := h.account(t, driver.PurposeVerifier, rollout.Sandbox{
		User: rollout.UserRoot, GradePaths: []string{"/srv/data"}, Env: map[string]string{runas.OwnImage: "1"},
	}).User(wire.VerifierUser)

	ran := v.Bash(`set -e; cat /tests/given; echo own > /verifier/tests/mine; cat /tests/mine; echo own > /usr/bin/new; rm /app/main
		echo 1 > /logs/verifier/reward.txt; cat /verifier/logs/reward.txt`)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "image\nown\n1\n", ran.Stdout)

	for _, script := range []string{
		"echo x > /usr/bin/new", "echo x > /usr/bin/other", "rm /usr/bin/ls", "chmod 777 /etc", "mount -o remount,rw /",
		"cat /tests/given", "cat /verifier/tests/mine", "ls /tests/*", "echo x > /tests/x", "ls /logs/verifier/",
	} {
		require.NotZero(t, v.Bash("run-as-agent bash -c "+quote(script)).ExitCode, script)
	}

	ran = v.Bash("run-as-agent bash -c 'cat /usr/bin/new; ! cat /app/main; echo made > /srv/data/new' && cat /srv/data/new")
	require.Equal(t, "own\nmade\n", ran.Stdout, ran.Stderr)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// What root writes no other sandbox of the image has, and it is bounded.
func rootIsPrivate(t *testing.T, h Harness) {
	first, second := h.rooted(t, driver.PurposeAgent), h.rooted(t, driver.PurposeAgent)
	ran := first.Bash(
		"set -e; rm /etc/group; echo changed > /etc/passwd; dd if=/dev/zero of=/usr/big bs=1M count=40; dd if=/dev/zero of=/srv/big bs=1M count=40",
	)
	require.NotZero(t, ran.ExitCode)
	require.Contains(t, ran.Stderr, "No space left")
	require.Equal(t, []string{"/"}, first.usage().FullFolders)
	require.Zero(t, second.Bash("grep -q ^app: /etc/passwd && [ -e /etc/group ] && [ ! -e /usr/big ]").ExitCode)
	require.Equal(t, "alive\n", first.Bash("echo alive").Stdout)
}

// What root changes in the folders that are graded is in its home, and another sandbox of the image becomes
// equal to it: what did not change is not written. What it changed elsewhere stays behind.
func rootIsGraded(t *testing.T, h Harness) {
	p := h.rooted(t, driver.PurposeAgent)
	ran := p.Bash(
		`set -e; cd /app; echo changed > main; rm -r lib; mkdir -m 700 new; ln -s /etc/passwd new/link; echo 1 > new/file; ln new/file new/hard
		chown -R 33:33 new; echo x > /usr/bin/ls; echo more >> /srv/data/rows`,
	)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.NoError(t, p.KillAll(t.Context()))
	home, err := p.GetTar(t.Context(), wire.AgentHome)
	require.NoError(t, err)

	defer home.Close()

	v := h.rooted(t, driver.PurposeVerifier)
	require.NoError(t, v.Restore(t.Context(), wire.AgentHome, home))
	ran = v.User(wire.VerifierUser).
		Bash("cd /app; cat main new/file /srv/data/rows; ls -A . new; readlink new/link; ls -di new/file new/hard | cut -d' ' -f1 | sort -u | wc -l; ls -d /usr")
	require.Equal(
		t,
		"changed\n1\nrows\nmore\n.:\nmain\nnew\n\nnew:\nfile\nhard\nlink\n/etc/passwd\n1\n/usr\n",
		ran.Stdout,
		ran.Stderr,
	)
}

// What root changes outside of the graded folders is found, and goes to another sandbox of the image, except
// into a folder with the image's programs.
func rootChangesElsewhere(t *testing.T, h Harness) {
	p := h.rooted(t, driver.PurposeAgent)
	none, err := p.Changes(t.Context(), "/", "/etc", "/opt", "/usr")
	require.NoError(t, err)
	require.Empty(t, none, "nobody has changed anything")

	ran := p.Bash(`set -e; mkdir -p /output/deep; echo 1 > /output/deep/file; echo x > /opt/tool/more; echo x > /opt/file
		echo x > /srv/file; echo x > /srv/data/file; echo x > /app/file; echo x > /tmp/file; echo x > ~/file; rm /usr/bin/ls`)
	require.Zero(t, ran.ExitCode, ran.Stderr)

	all, err := p.Changes(t.Context(), "/", "/etc", "/opt", "/usr")
	require.NoError(t, err)

	folders := map[string]bool{}
	for _, c := range all {
		folders[c.Path] = c.Folder
	}

	require.Equal(t, map[string]bool{
		"/output": true, "/opt/tool": true, "/opt/file": false, "/srv/file": false, "/usr/bin": true,
	}, folders)

	changed := []string{"/opt/tool", "/output"}
	home, err := p.GetHome(t.Context(), changed)
	require.NoError(t, err)

	defer home.Close()

	v := h.account(t, driver.PurposeVerifier, rollout.Sandbox{
		User: rollout.UserRoot, Workdir: UsersImageWorkdir, GradePaths: []string{"/srv/data"}, Changed: changed,
	})
	info, err := v.Info(t.Context())
	require.NoError(t, err)
	require.Contains(t, info.Shared, "/output")
	require.NotContains(t, info.Shared, "/opt/tool")
	require.NoError(t, v.Restore(t.Context(), wire.AgentHome, home, ".changed/0"))

	ran = v.User(wire.VerifierUser).Bash("cat /output/deep/file /srv/data/file /app/file /home/user/file; ls /opt/tool /home/user/.changed")
	require.Equal(t, "1\nx\nx\nx\n/home/user/.changed:\n1\n\n/opt/tool:\nrun.py\n", ran.Stdout, ran.Stderr)
}

// The agent is the image's user, with the groups of that user, and may what they may. It has no capability.
func userOfAnImage(t *testing.T, h Harness) {
	p := h.asUser(t, driver.PurposeAgent)
	ran := p.Bash(`id -un; id -u; id -g; id -G; cd ~/workdir && cat main && echo changed > made && cat /app/made
		echo x > /mine/x && echo x > /ofgroup/x && echo x > ~/x && echo x > /run/x && stat -c %u:%g /mine/x ~/x ~/workdir /app ~`)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "app\n1001\n0\n0 50\noriginal\nchanged\n1001:0\n1001:0\n1001:0\n1001:0\n1001:0\n", ran.Stdout)
	require.NoError(t, p.WriteFile(t.Context(), "/home/user/put", strings.NewReader("x"), 0o600))
	require.Equal(t, "1001:0\n", p.Bash("stat -c %u:%g ~/put").Stdout)
	data, err := p.ReadFile(t.Context(), "/mine/x", 100)
	require.NoError(t, err)
	require.Equal(t, "x\n", string(data))

	for _, f := range p.probed() {
		require.True(t, f.Refused, f.Name)
	}

	for _, script := range []string{
		"ls /closed", "echo x > /etc/new", "chown 0:0 /mine/x", "setpriv --reuid=0 --clear-groups true",
		"kill -9 1", "cat /proc/1/environ", "ls /proc/1/fd/", "prlimit --pid 1 --nofile=1",
		"ls /verifier/home", "ls /verifier/run", "echo x > /verifier/run/run-as-agent.sock",
		"echo x > /opt/rolloutd/x",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
	}

	require.Equal(t, "1001\n", p.Bash("run-as-agent id -u").Stdout, "it runs the program itself")
}

// The verifier is apart from a user of the image with the verifier's usual id, and from one in root's group.
func userBesideVerifier(t *testing.T, h Harness) {
	p := h.asUser(t, driver.PurposeVerifier)
	v := p.User(wire.VerifierUser)

	// what the image has at these paths neither hinders the verifier nor is in them
	require.Equal(t, "0\n", v.Bash("ls /tests/ /logs/verifier/ | grep -c -e given -e reward").Stdout)
	require.Zero(
		t,
		v.Bash(
			"echo expected > /verifier/tests/answer && echo 0 > /tests/reward && echo 1 > /logs/verifier/reward.txt",
		).ExitCode,
	)
	v.StartBash("judge", "sleep 1000")
	v.Eventually(func() bool { return v.Bash("pgrep sleep").ExitCode == 0 }, "the verifier sees its process")

	for _, script := range []string{
		"cat /verifier/tests/answer", "ls /verifier/logs", "ls /verifier/home",
		"echo 1 > /verifier/logs/reward.txt", "ls /verifier/run", "echo x > /mine/new",
		"echo x > /ofgroup/new", "rm /tests", "echo x > /usr/bin/diff", "ps -e | grep -q sleep", "pgrep sleep",
		"pgrep sandboxd",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
		require.NotZero(t, v.Bash("run-as-agent bash -c "+quote(script)).ExitCode, script)
	}

	ran := v.Bash(
		"cd /home/user/workdir && run-as-agent bash -c 'id -un; id -G; pwd; umask 077; echo built > out; grep ^CapEff /proc/self/status' && cat /app/out && id -un && id -u",
	)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "app\n0 50\n/app\nCapEff:\t0000000000000000\nbuilt\nverifier\n65529\n", ran.Stdout)
}

// A workdir that the agent removes by its name in the image, or moves away, and makes again goes to the verifier as it is then.
// One that it only removes goes there empty.
func rootReplaces(t *testing.T, h Harness) {
	s := rollout.Sandbox{User: rollout.UserRoot, Workdir: UsersImageWorkdir}
	for script, want := range map[string]string{
		"rm -rf /app; mkdir -p /app/new; echo again > /app/new/main":  "new\nagain\n",
		"mv /app /old; mkdir -p /app/new; echo moved > /app/new/main": "new\nmoved\n",
		"rm -rf /app": "",
	} {
		p := h.account(t, driver.PurposeAgent, s)
		ran := p.Bash("set -e; cd /; " + script)
		require.Zero(t, ran.ExitCode, ran.Stderr)
		require.NoError(t, p.KillAll(t.Context()))

		changes, err := p.Changes(t.Context(), "/")
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(changes), "{/app ", script)

		home, err := p.GetHome(t.Context(), nil)
		require.NoError(t, err)

		v := h.account(t, driver.PurposeVerifier, s)
		err = v.Restore(t.Context(), wire.AgentHome, home)
		home.Close()
		require.NoError(t, err)
		require.Equal(t, want, v.User(wire.VerifierUser).Bash("cd /app; ls; cat new/main").Stdout, script)
	}
}
