package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// startTime bounds the start of a sandbox until sandboxd answers; on an idle machine it takes about 10 ms.
const startTime = 30 * time.Second

// Create implements driver.Driver.
func (d *Driver) Create(ctx context.Context, id string, spec driver.Spec) error {
	if err := d.Probe(ctx); err != nil {
		return err
	}

	return noRoom(d.create(ctx, id, spec))
}

// noRoom makes a lack of disk space or inodes a fault.Exhausted.
func noRoom(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fault.Wrap(fault.Exhausted, err, "this host has no room for a sandbox")
	}

	return err
}

// create is Create without the probe, which itself runs in a sandbox.
func (d *Driver) create(ctx context.Context, id string, spec driver.Spec) error {
	f, err := lockFolder(ctx, d.path(id), true)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "folder of sandbox %q", id)
	}
	defer f.unlock()

	living, err := alive(ctx, f.path)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "reach sandbox %q", id)
	}

	if living && isComplete(f.path) {
		return nil
	}

	if err := d.clear(ctx, f.path); err != nil {
		return fault.Wrap(fault.Unavailable, err, "remove the remains of sandbox %q", id)
	}

	if err := d.startSandbox(ctx, f.path, spec); err != nil {
		return errors.Join(withLog(err, f.path), d.clear(context.WithoutCancel(ctx), f.path), os.Remove(f.path))
	}

	return nil
}

// startSandbox creates the sandbox in its empty folder and waits for its answer.
func (d *Driver) startSandbox(ctx context.Context, dir string, spec driver.Spec) error {
	l, err := d.launch(ctx, dir, spec)
	if err != nil {
		return err
	}
	defer l.close()

	child, err := l.start()
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "start stage")
	}

	exited := make(chan struct{})
	// ends with the sandbox
	go func() { child.reap(); close(exited) }()
	// now only the sandbox holds its socket and its user ids
	l.closeFiles()

	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()

	answered := make(chan error, 1)
	go func() { answered <- l.await(ctx, dir) }()

	select {
	case err = <-answered:
	case <-exited:
		cancel()
		<-answered

		err = errors.New("the sandbox ended while starting")
	}

	if err == nil {
		err = os.WriteFile(filepath.Join(dir, madeFile), nil, 0o600)
	}

	return fault.Wrap(fault.Unavailable, err, "start sandbox")
}

// isComplete reports whether Create was completed. If a creator is killed before, the sandbox's socket may have
// no reader, or its processes may see each other.
func isComplete(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, madeFile))
	return err == nil
}

// await starts the sandbox and returns when it accepts requests.
func (l *launch) await(ctx context.Context, dir string) error {
	if l.namespace == nil {
		return awaitAnswer(ctx, dir)
	}

	if err := l.namespace.start(ctx, dir); err != nil {
		return err
	}

	if err := awaitAnswer(ctx, dir); err != nil {
		return err
	}

	first, ok := readInit(dir)
	if !ok {
		return errors.New("bwrap did not describe the first process")
	}

	return errors.Join(hideProcesses(first.PID, l.stage.UID), limitTerminals(first.PID))
}

// awaitAnswer requests sandboxd's info. The socket's backlog holds the request until sandboxd answers.
func awaitAnswer(ctx context.Context, dir string) error {
	conn, err := dial(ctx, dir)
	if err != nil {
		return err
	}
	defer conn.Close()

	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sandboxd/v1/info", nil)
	if err != nil {
		return err
	}

	if err := req.Write(conn); err != nil {
		return err
	}

	res, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return err
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("sandboxd answers %s", res.Status)
	}

	return nil
}

// withLog adds the end of the sandbox's log to the error: the output of stage, bwrap and sandboxd.
func withLog(err error, dir string) error {
	data, readErr := os.ReadFile(filepath.Join(dir, logFile))

	output := strings.TrimSpace(string(data[max(0, len(data)-1000):]))
	if readErr != nil || output == "" {
		return err
	}

	return fault.Wrap(fault.KindOf(err), err, "%s", output)
}
