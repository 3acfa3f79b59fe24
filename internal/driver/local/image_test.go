package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// makeImage creates a root file system with bash and a few programs, and with secrets that must not be visible.
func makeImage(t *testing.T, dir string) {
	t.Helper()

	for _, p := range []string{"usr/bin", "usr/lib", "etc", "opt/tool", "home/user", "root"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, p), 0o755))
	}

	for path, text := range map[string]string{
		"etc/passwd": "image:x:1000:1000::/:/bin/sh\n", "etc/image": "made for a test\n", "opt/tool/readme": "tool\n",
		"root/secret": "s", "home/user/secret": "s", "etc/shadow": "s",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600))
		require.NoError(t, os.Chmod(filepath.Join(dir, path), 0o644))
	}

	require.NoError(t, os.Remove(filepath.Join(dir, "etc/shadow")))
	require.NoError(t, imagetest.Fill(dir, []string{"bash", "cat", "ls", "id"}))
}

// The sandbox shows the folder of the root file system with the sandbox's own folders mounted over it. The
// mount points need not exist in the folder.
func TestRootFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	makeImage(t, folder)
	p := sandboxtest.New(t, open(t, local.Options{Image: folder}), driver.Spec{})
	out := p.Bash("cat /etc/image /opt/tool/readme; id -un; ls -A /home/user /usr/bin; [ -e /root/secret ] || ls /opt")
	require.Equal(
		t,
		"made for a test\ntool\nuser\n/home/user:\nworkdir\n\n/usr/bin:\nbash\ncat\nid\nls\nrolloutd\ntool\n",
		out.Stdout,
	)
	require.NotZero(t, p.Bash(": > /etc/new").ExitCode)
}

// images returns a store with the folder as the image "small".
func images(t testing.TB, folder string) *image.Store {
	t.Helper()
	s, err := image.Open(image.Options{Dir: filepath.Join(t.TempDir(), "images")})
	require.NoError(t, err)
	_, err = s.Import(t.Context(), folder, "small")
	require.NoError(t, err)

	return s
}

// withImage opens a driver with the image "small", made of programs of this host.
func withImage(t *testing.T) *local.Driver {
	t.Helper()
	folder := t.TempDir()
	makeImage(t, folder)

	return open(t, local.Options{Images: images(t, folder), BridgeDir: t.TempDir()})
}

// An OCI image is the root file system of the sandbox. The agent may change what its user may change, and
// only this sandbox sees the changes.
func TestImage(t *testing.T) {
	t.Parallel()
	d := withImage(t)
	p := sandboxtest.New(t, d, driver.Spec{Image: "small"})
	out := p.Bash("cat /etc/image /opt/tool/readme; id -un; id -u; ls -A /home/user; cat /root/secret")
	require.Equal(t, "made for a test\ntool\nimage\n1000\nsecret\nworkdir\ns", out.Stdout)
}

// A client can only name images in the host's store: paths and unknown names are refused.
func TestImageNames(t *testing.T) {
	t.Parallel()

	for _, d := range []*local.Driver{open(t, local.Options{}), withImage(t)} {
		b := sandbox.New(d, sandbox.Options{})
		for _, name := range []string{"/", "..", "../..", "/etc", "missing", "a/b", "sha256:x"} {
			_, err := b.Create(t.Context(), "x", rollout.Sandbox{Image: name}, nil)
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%q: %v", name, err)
		}
	}
}
