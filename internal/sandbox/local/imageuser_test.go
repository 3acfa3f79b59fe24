package local_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/local"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/probe"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// userImage is a driver with an image whose USER is app, with the id that a verifier has elsewhere, in root's group and in another.
func userImage(t *testing.T) *local.Driver {
	t.Helper()
	needRoot(t)
	folder := t.TempDir()
	require.NoError(t, imagetest.Fill(folder, append([]string{"chown", "setpriv", "ln"}, imagetest.Programs()...)))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "etc"), 0o755))
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/sh\napp:x:1001:0:App:/app:/bin/sh\nother:x:1000:1000::/:/bin/sh\n",
		"group":  "root:x:0:\nshared:x:50:app\n",
	} {
		path := filepath.Join(folder, "etc", name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(path, 0o644))
	}
	for name, mode := range map[string]os.FileMode{"mine": 0o700, "ofgroup": 0o770, "closed": 0o700} {
		require.NoError(t, os.Mkdir(filepath.Join(folder, name), 0o700))
		require.NoError(t, os.Chmod(filepath.Join(folder, name), mode))
	}
	require.NoError(t, os.Chown(filepath.Join(folder, "mine"), 1001, 0))
	require.NoError(t, os.Chown(filepath.Join(folder, "ofgroup"), 7, 50))
	return envImage(t, folder, v1.Config{User: "app", WorkingDir: "/app"})
}

// asUser makes every sandbox of the image for the user that it names.
type asUser struct {
	*local.Driver
	purpose string
}

// Create implements driver.Driver.
func (d asUser) Create(ctx context.Context, id string, spec driver.Spec) error {
	spec.Image, spec.User, spec.Workdir = "env", rollout.UserOfImage, rollout.WorkdirOfImage
	spec.Labels = map[string]string{driver.LabelPurpose: d.purpose}
	return d.Driver.Create(ctx, id, spec)
}

// The agent is the image's user, with the groups of that user, and may what they may. It has no capability.
func TestUserOfAnImage(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, asUser{userImage(t), driver.PurposeAgent}, driver.Spec{})
	ran := p.Bash(`id -un; id -u; id -g; id -G; cd ~/workdir && cat main && echo changed > made && cat /app/made
		echo x > /mine/x && echo x > /ofgroup/x && echo x > ~/x && echo x > /run/x && stat -c %u:%g /mine/x ~/x ~/workdir /app ~`)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "app\n1001\n0\n0 50\noriginal\nchanged\n1001:0\n1001:0\n1001:0\n1001:0\n1001:0\n", ran.Stdout)
	require.NoError(t, p.WriteFile(t.Context(), "/home/user/put", strings.NewReader("x"), 0o600))
	require.Equal(t, "1001:0\n", p.Bash("stat -c %u:%g ~/put").Stdout)
	data, err := p.ReadFile(t.Context(), "/mine/x", 100)
	require.NoError(t, err)
	require.Equal(t, "x\n", string(data))

	ran = p.Bash("/opt/rolloutd/sandboxd probe " + listeners(t)[0].Addr().String())
	require.Zero(t, ran.ExitCode, ran.Stderr)
	var findings []probe.Finding
	require.NoError(t, json.Unmarshal([]byte(ran.Stdout), &findings))
	require.NotEmpty(t, findings)
	for _, f := range findings {
		require.True(t, f.Refused, f.Name)
	}
	for _, script := range []string{
		"ls /closed", "echo x > /etc/new", "chown 0:0 /mine/x", "setpriv --reuid=0 --clear-groups true", "kill -9 1", "cat /proc/1/environ", "ls /proc/1/fd/",
		"prlimit --pid 1 --nofile=1", "ls /verifier/home", "ls /verifier/run", "echo x > /verifier/run/run-as-agent.sock", "echo x > /opt/rolloutd/x",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
	}
	require.Equal(t, "1001\n", p.Bash("run-as-agent id -u").Stdout, "it runs the program itself")
}

// The verifier is apart from a user of the image with the verifier's usual id, and from one in root's group.
func TestUserOfAnImageBesideAVerifier(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, asUser{userImage(t), driver.PurposeVerifier}, driver.Spec{})
	v := p.User(wire.VerifierUser)
	require.Zero(t, v.Bash("echo expected > /verifier/tests/answer && echo 0 > /tests/reward && echo 1 > /logs/verifier/reward.txt").ExitCode)
	v.StartBash("judge", "sleep 1000")
	v.Eventually(func() bool { return v.Bash("pgrep sleep").ExitCode == 0 }, "the verifier sees its process")
	for _, script := range []string{
		"cat /verifier/tests/answer", "ls /verifier/logs", "ls /verifier/home", "echo 1 > /verifier/logs/reward.txt", "ls /verifier/run",
		"echo x > /mine/new", "echo x > /ofgroup/new", "rm /tests", "echo x > /usr/bin/diff", "ps -e | grep -q sleep", "pgrep sleep", "pgrep sandboxd",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
		require.NotZero(t, v.Bash("run-as-agent bash -c "+quote(script)).ExitCode, script)
	}
	ran := v.Bash("cd /home/user/workdir && run-as-agent bash -c 'id -un; id -G; pwd; umask 077; echo built > out; grep ^CapEff /proc/self/status' && cat /app/out && id -un && id -u")
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "app\n0 50\n/home/user/workdir\nCapEff:\t0000000000000000\nbuilt\nverifier\n65529\n", ran.Stdout)
}
