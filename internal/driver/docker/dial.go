package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/attach"
)

// Dial implements driver.Driver.
func (d *Driver) Dial(ctx context.Context, id string) (net.Conn, error) {
	info, err := d.daemon(ctx)
	if err != nil {
		return nil, err
	}

	conn, err := d.dial(ctx, info, id)
	switch {
	case err == nil:
		return conn, nil
	case !d.local(info):
		return nil, d.lostError(ctx, id, err)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED):
		// the kernel refuses once sandboxd is dead
		return nil, fault.Wrap(fault.SandboxLost, err, "sandbox %q is gone", id)
	default:
		return nil, fault.Wrap(fault.Unavailable, err, "dial sandbox %q", id)
	}
}

// dial is Dial with unclassified errors.
func (d *Driver) dial(ctx context.Context, info *system.Info, id string) (net.Conn, error) {
	if d.local(info) {
		return d.socket(ctx, id)
	}

	return d.attach(ctx, id)
}

// socket dials the control socket by a path that fits into a socket address: a data folder's path may
// exceed its 108 bytes.
func (d *Driver) socket(ctx context.Context, id string) (net.Conn, error) {
	folder, err := os.Open(d.folder(id))
	if err != nil {
		return nil, err
	}
	defer folder.Close()

	return (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), controlFile))
}

// attach starts the carrier of a connection in the sandbox, and returns its streams as one connection.
func (d *Driver) attach(ctx context.Context, id string) (net.Conn, error) {
	e, err := d.docker.ExecCreate(ctx, d.container(id), client.ExecCreateOptions{
		User: "0:0", AttachStdin: true, AttachStdout: true, AttachStderr: true, WorkingDir: "/",
		Cmd: []string{sandboxdPath, attach.Command, controlSocket},
	})
	if err != nil {
		return nil, err
	}

	a, err := d.docker.ExecAttach(ctx, e.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, err
	}

	conn := &stream{Conn: a.Conn, in: a.Reader}
	if err := conn.ready(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}

	return conn, nil
}

// answers requests sandboxd's info.
func (d *Driver) answers(ctx context.Context, id string) error {
	res, err := d.get(ctx, id, "/v1/info")
	if err != nil {
		return err
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("sandboxd answers %s", res.Status)
	}

	return nil
}

// get sends one request to sandboxd, on a new connection that the response's body closes.
func (d *Driver) get(ctx context.Context, id, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sandboxd"+path, nil)
	if err != nil {
		return nil, err
	}

	info, err := d.daemon(ctx)
	if err != nil {
		return nil, err
	}

	return (&http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return d.dial(ctx, info, id) },
	}).RoundTrip(req)
}
