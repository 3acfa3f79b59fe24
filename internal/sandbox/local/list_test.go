package local_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandbox/local"
	"github.com/rolloutd/rolloutd/internal/sandbox/local/unixdiag"
)

// A listing does not wake the supervisors of the sandboxes: a host of a thousand lists several times a second.
func TestListConnectsToNone(t *testing.T) {
	t.Parallel()
	d := open(t, local.Options{Dir: filepath.Join(t.TempDir(), "sandboxes")})
	socket := supervise(t, d, "quiet")
	set, err := unixdiag.Listeners()
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
	first, err := socket.Accept() // in the order of their connects
	require.NoError(t, err)
	defer first.Close()
	n, err := first.Read(make([]byte, 1))
	require.NoError(t, err, "the listing has connected")
	require.Equal(t, 1, n)
}

// supervise makes the folder of a sandbox whose supervisor is the test.
func supervise(t *testing.T, d *local.Driver, id string) net.Listener {
	t.Helper()
	dir := d.Folder(id)
	require.NoError(t, os.Mkdir(dir, 0o700))
	l, err := net.Listen("unix", filepath.Join(dir, "control.sock"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
