package local_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/local"
)

// A listing does not connect to sandboxd, because a host with a thousand sandboxes lists them several times a second.
func TestListConnectsToNone(t *testing.T) {
	t.Parallel()
	d := open(t, local.Options{Dir: filepath.Join(t.TempDir(), "sandboxes")})
	socket := supervise(t, d, "quiet")

	set, err := local.ListUnixListeners()
	if err != nil || !set.Has(socket.Addr().String()) {
		t.Skipf("neither kernel nor file system tell which sockets listen (%v); a listing must connect", err)
	}

	all, err := d.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "quiet", all[0].ID)

	client, err := net.Dial("unix", socket.Addr().String())
	require.NoError(t, err)

	defer client.Close()

	_, err = client.Write([]byte("x"))
	require.NoError(t, err)
	// connections are accepted in the order of their connects
	first, err := socket.Accept()
	require.NoError(t, err)

	defer first.Close()

	n, err := first.Read(make([]byte, 1))
	require.NoError(t, err, "the listing has connected")
	require.Equal(t, 1, n)
}

// A listing reads a state file again after it was replaced, and forgets folders that are gone.
func TestListSeesAReplacedState(t *testing.T) {
	t.Parallel()
	d := open(t, local.Options{Dir: filepath.Join(t.TempDir(), "sandboxes")})
	supervise(t, d, "one")
	file := filepath.Join(d.Folder("one"), "state.json")
	// all have the same length, and the first text appears again
	for _, purpose := range []string{"warm", "done", "warm"} {
		require.NoError(t, os.WriteFile(file+".new", []byte(`{"id":"one","labels":{"purpose":"`+purpose+`"}}`), 0o600))
		require.NoError(t, os.Rename(file+".new", file))

		for range 2 {
			all, err := d.List(t.Context())
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.Equal(t, purpose, all[0].Labels["purpose"])
		}
	}

	require.Equal(t, 1, d.Remembered())
	require.NoError(t, os.RemoveAll(d.Folder("one")))
	all, err := d.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	require.Zero(t, d.Remembered())
}

// supervise creates the folder of a sandbox whose supervisor is the test.
func supervise(t *testing.T, d *local.Driver, id string) net.Listener {
	t.Helper()

	dir := d.Folder(id)
	require.NoError(t, os.Mkdir(dir, 0o700))
	l, err := net.Listen("unix", filepath.Join(dir, "control.sock"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })

	return l
}
