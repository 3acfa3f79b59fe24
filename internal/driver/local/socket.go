package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// withShortPath runs do with a path of the control socket that fits into a socket address: a data folder's
// path may exceed its 108 bytes.
func withShortPath(dir string, do func(path string) error) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()

	return do(fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), controlFile))
}

// listen creates the control socket. sandboxd inherits the listener; the caller does not accept from it.
func listen(dir string) (*os.File, error) {
	if err := os.Remove(filepath.Join(dir, controlFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	var file *os.File

	err := withShortPath(dir, func(path string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		defer l.Close()

		l.SetUnlinkOnClose(false)

		if err := os.Chmod(path, 0o600); err != nil {
			return err
		}

		file, err = l.File()

		return err
	})

	return file, err
}

// Dial implements driver.Driver.
func (d *Driver) Dial(ctx context.Context, id string) (net.Conn, error) {
	conn, err := dial(ctx, d.path(id))
	switch {
	case err == nil:
		return conn, nil
	case isGone(err):
		return nil, fault.Wrap(fault.SandboxLost, err, "sandbox %q is gone", id)
	default:
		return nil, fault.Wrap(fault.Unavailable, err, "dial sandbox %q", id)
	}
}

func dial(ctx context.Context, dir string) (conn net.Conn, err error) {
	err = withShortPath(dir, func(path string) error {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", path)
		return err
	})

	return conn, err
}

// isGone reports whether a failed dial proves that no sandboxd holds the socket: the kernel refuses a
// connection once the last holder of the listener has died.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// alive reports whether a sandboxd holds the socket in dir.
func alive(ctx context.Context, dir string) (bool, error) {
	conn, err := dial(ctx, dir)
	switch {
	case err == nil:
		return true, conn.Close()
	case isGone(err):
		return false, nil
	case errors.Is(err, unix.EAGAIN):
		// its backlog is full
		return true, nil
	default:
		return false, err
	}
}
