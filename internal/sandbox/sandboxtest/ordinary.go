package sandboxtest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// ordinaryID is the user and group of Ordinary.
const ordinaryID = 65534

// Ordinary lets root run this test program as an ordinary user.
type Ordinary struct {
	// copies that the user may run
	Test, Sandboxd string

	// the user's own
	Dir string

	// makes a process the user's
	Attr *syscall.SysProcAttr
}

// OrdinaryUser prepares the files of an ordinary user. sandboxd is the path of the binary.
func OrdinaryUser(t *testing.T, sandboxd string) Ordinary {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	o := Ordinary{
		Test: filepath.Join(dir, "test"), Sandboxd: filepath.Join(dir, "sandboxd"), Dir: filepath.Join(dir, "data"),
		Attr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}},
	}
	require.NoError(t, os.Mkdir(o.Dir, 0o700))
	require.NoError(t, os.Chown(o.Dir, ordinaryID, ordinaryID))

	self, err := os.Executable()
	require.NoError(t, err)

	for to, from := range map[string]string{o.Test: self, o.Sandboxd: sandboxd} {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, content, 0o755))
	}

	return o
}
