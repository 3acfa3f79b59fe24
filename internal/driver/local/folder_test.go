package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// A driver on a copy of a data folder does not end the sandboxes of the original folder.
func TestCopyOfTheFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sandboxes")

	p := sandboxtest.New(t, open(t, local.Options{Dir: dir}), driver.Spec{})
	for name, act := range map[string]func(*testing.T, *local.Driver){
		"listed": func(t *testing.T, d *local.Driver) {
			infos, err := d.List(t.Context())
			require.NoError(t, err)
			require.Empty(t, infos, "it is not the copy's")
		},
		"destroyed": func(t *testing.T, d *local.Driver) { require.NoError(t, d.Destroy(t.Context(), p.ID())) },
	} {
		t.Run(name, func(t *testing.T) {
			twin := filepath.Join(t.TempDir(), "sandboxes")
			out, err := exec.CommandContext(t.Context(), "cp", "-a", dir, twin).CombinedOutput()
			require.NoError(t, err, "%s", out)
			d := open(t, local.Options{Dir: twin})
			act(t, d)
			_, err = d.Dial(t.Context(), p.ID())
			require.Equal(t, fault.SandboxLost, fault.KindOf(err))
			_, err = p.Info(t.Context())
			require.NoError(t, err, "the sandbox lives on")
		})
	}
}

// A folder that was moved, or is reached by another path, still has its sandboxes. Destroying them leaves
// nothing behind.
func TestMovedFolder(t *testing.T) {
	t.Parallel()
	needRoot(t)
	top := t.TempDir()
	dir, moved := filepath.Join(top, "before"), filepath.Join(top, "after")
	p := sandboxtest.New(t, open(t, local.Options{Dir: dir}), driver.Spec{})
	require.NoError(t, os.Rename(dir, moved))
	d := open(t, local.Options{Dir: moved})
	infos, err := d.List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.NoError(t, d.Destroy(t.Context(), p.ID()))
	requireNothingLeft(t, dir)
	requireNothingLeft(t, moved)
}
