// Package dockertest runs a Docker daemon for tests, in a folder of its own, beside any other daemon of the machine.
package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/testkit/child"
)

// Engine is a running daemon. Containers have no network: it makes no bridge and no firewall rules.
type Engine struct {
	// URL of its socket
	Socket string

	// URL of its TCP port, for clients with the certificates in Certs
	TLS    string
	Certs  string
	Client *client.Client

	dir string

	// users of containers are mapped
	remap bool
	cmd   *exec.Cmd
	log   *syncBuffer
	done  <-chan struct{}
}

// patience bounds each wait for a daemon.
const patience = 5 * time.Minute

// Start starts a daemon with all its files in dir, whose path must be short. An UnavailableError says why
// this machine cannot run a daemon.
func Start(ctx context.Context, dir string) (*Engine, error) { return start(ctx, dir, false) }

// StartRemapped starts a daemon that maps the users of containers to unused ids of this machine.
func StartRemapped(ctx context.Context, dir string) (*Engine, error) { return start(ctx, dir, true) }

func start(ctx context.Context, dir string, remap bool) (*Engine, error) {
	if os.Geteuid() != 0 {
		return nil, &UnavailableError{"only root starts a Docker daemon"}
	}

	if _, err := exec.LookPath("dockerd"); err != nil {
		return nil, &UnavailableError{"dockerd is not installed (apt install docker.io)"}
	}

	e := &Engine{
		dir:    dir,
		remap:  remap,
		Certs:  filepath.Join(dir, "certs"),
		Socket: "unix://" + filepath.Join(dir, "docker.sock"),
	}
	if err := writeCerts(e.Certs); err != nil {
		return nil, err
	}

	var err error
	if e.Client, err = client.New(client.WithHost(e.Socket)); err != nil {
		return nil, err
	}

	if err := e.Run(ctx); err != nil {
		return nil, err
	}

	if err := e.try(ctx); err != nil {
		return nil, errors.Join(&UnavailableError{"the Docker daemon runs no container here: " + err.Error()}, e.Stop())
	}

	return e, nil
}

// UnavailableError reports that this machine cannot run a daemon.
type UnavailableError struct{ reason string }

func (e *UnavailableError) Error() string { return e.reason }

// remapped gives the daemon a range of ids, in a mount namespace of its own so that this machine's files do not change.
const remapped = `mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid && exec dockerd --userns-remap daemon:daemon "$@"`

// Run starts the daemon's process, which must not be running, and waits until it answers.
func (e *Engine) Run(ctx context.Context) error {
	e.log = &syncBuffer{}
	args := []string{
		"--data-root",
		filepath.Join(e.dir, "data"),
		"--exec-root",
		filepath.Join(e.dir, "exec"),
		"--pidfile",
		filepath.Join(e.dir, "pid"),
		"--host",
		e.Socket,
		"--host",
		"tcp://127.0.0.1:0",
		"--tlsverify",
		"--tlscacert",
		filepath.Join(e.Certs, "ca.pem"),
		"--tlscert",
		filepath.Join(e.Certs, "server.pem"),
		"--tlskey",
		filepath.Join(e.Certs, "server-key.pem"),
		"--bridge",
		"none",
		"--iptables=false",
		"--ip6tables=false",
		"--userland-proxy=false",
		"--shutdown-timeout",
		"1",
	}

	e.cmd = exec.Command("dockerd", args...)
	if e.remap {
		ids := filepath.Join(e.dir, "ids")
		if err := os.WriteFile(ids, []byte("daemon:300000:65536\n"), 0o644); err != nil {
			return err
		}

		e.cmd = exec.Command("unshare", append([]string{"--mount", "sh", "-c", remapped, ids}, args...)...)
	}

	e.cmd.Stdout, e.cmd.Stderr = e.log, e.log

	var err error
	if e.done, err = child.Start(e.cmd, syscall.SIGTERM); err != nil {
		return err
	}

	return e.await(ctx)
}

var listens = regexp.MustCompile(`API listen on (127\.0\.0\.1:\d+)`)

// await waits until the daemon answers on its socket and has logged its port.
func (e *Engine) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	for {
		_, err := e.Client.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
		if port := listens.FindStringSubmatch(e.log.String()); err == nil && port != nil {
			e.TLS = "tcp://" + port[1]
			return nil
		}

		select {
		case <-e.done:
			return &UnavailableError{fmt.Sprintf("dockerd does not start here: %s", tail(e.log.String(), 600))}
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("dockerd does not answer: %s", tail(e.log.String(), 600)), e.Kill())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// Stop removes all containers and ends the daemon.
func (e *Engine) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	all, err := e.Client.ContainerList(ctx, client.ContainerListOptions{All: true})
	for _, c := range all.Items {
		_, removeErr := e.Client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{
			Force:         true,
			RemoveVolumes: true,
		})
		err = errors.Join(err, removeErr)
	}

	if signalErr := e.cmd.Process.Signal(syscall.SIGTERM); signalErr != nil &&
		!errors.Is(signalErr, os.ErrProcessDone) {
		err = errors.Join(err, signalErr)
	}

	select {
	case <-e.done:
		return errors.Join(err, e.unmount())
	case <-ctx.Done():
		return errors.Join(err, errors.New("dockerd does not end"), e.Kill())
	}
}

// unmount removes the mounts that a killed daemon left below its folder, the last one first.
func (e *Engine) unmount() error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	for _, line := range slices.Backward(strings.Split(string(data), "\n")) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], e.dir+"/") {
			err = errors.Join(err, unix.Unmount(fields[4], unix.MNT_DETACH))
		}
	}

	return err
}

// Kill kills the daemon's process and its containerd. Its containers run on until another daemon starts.
func (e *Engine) Kill() error {
	containerd, err := e.containerd()
	if err != nil {
		return err
	}

	if err := e.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}

	<-e.done

	if err := containerd.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	// it is not a child of this process
	for containerd.Signal(syscall.Signal(0)) == nil {
		time.Sleep(10 * time.Millisecond)
	}

	return nil
}

// containerd returns the process that the daemon started.
func (e *Engine) containerd() (*os.Process, error) {
	data, err := os.ReadFile(filepath.Join(e.dir, "exec/containerd/containerd.pid"))
	if err != nil {
		return nil, err
	}

	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, err
	}

	return os.FindProcess(pid)
}

// syncBuffer holds the daemon's output.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.String()
}
