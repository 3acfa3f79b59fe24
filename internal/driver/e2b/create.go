package e2b

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/e2b/envd"
	"github.com/rolloutd/rolloutd/internal/driver/nested"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/filelock"
)

const (
	// startTime bounds the start of sandboxd until it answers.
	startTime = 2 * time.Minute
	// minTimeout is the least requested lifetime of a machine: its creation takes part of it.
	minTimeout = time.Minute
	// killTime bounds the end of an unusable machine.
	killTime = time.Minute
	// locksDir has the lock files that serialize the callers of one host; locks is their number.
	locksDir = "locks"
	locks    = 256
)

// Create implements driver.Driver. The API has no idempotency key for a creation. So callers of this host
// take turns, and each first looks for a machine with the sandbox's id in its metadata. It ends a machine
// in which sandboxd does not answer: its creator was killed, or its lease ended.
func (d *Driver) Create(ctx context.Context, id string, spec driver.Spec) error {
	template, err := d.template(spec)
	if err != nil {
		return err
	}

	lock, err := filelock.Wait(ctx, d.lockOf(id))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "create sandbox %q", id)
	}
	// closing the file releases it anyway
	defer func() { _ = lock.Release() }()

	found, err := d.adopt(ctx, id)
	if found || err != nil {
		return err
	}

	meta, err := d.metadata(id, spec)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "metadata of sandbox %q", id)
	}

	s, err := d.api.Create(ctx, CreateRequest{Template: template, Timeout: timeoutOf(spec.Lease), Metadata: meta})
	if err != nil {
		return err
	}

	if err := d.startSandboxd(ctx, id, spec, s); err != nil {
		return errors.Join(err, d.killMachine(ctx, id, s.ID))
	}

	return nil
}

func timeoutOf(lease time.Duration) int { return wholeSeconds(max(lease, minTimeout)) }

// lockOf returns one of a fixed number of files, so that sandboxes leave no files behind.
func (d *Driver) lockOf(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))

	return filepath.Join(d.o.Dir, locksDir, fmt.Sprintf("%02x", h.Sum32()%locks))
}

// adopt finds the sandbox's machine in which sandboxd answers, and ends all others.
func (d *Driver) adopt(ctx context.Context, id string) (bool, error) {
	d.forget(id)

	all, err := d.machines(ctx, id)
	if err != nil {
		return false, err
	}

	found := false
	for _, s := range all {
		if !found {
			conn, err := d.dialOrEnd(ctx, id)
			if err == nil {
				found = true
				_ = conn.Close()

				continue
			}

			if !fault.Is(err, fault.SandboxLost) {
				return false, err
			}
		}

		if err := d.killMachine(ctx, id, s.ID); err != nil {
			return false, err
		}
	}

	return found, nil
}

// startSandboxd starts sandboxd in a new machine, and first uploads it if its template lacks it.
func (d *Driver) startSandboxd(ctx context.Context, id string, spec driver.Spec, s apiSandbox) error {
	// the answer to a creation lacks the sizes
	full, err := d.api.Get(ctx, s.ID)
	if err != nil {
		return err
	}

	if err := checkSizes(spec, full); err != nil {
		return err
	}

	m := d.remember(id, full)

	config, err := d.enclosed(id, spec)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "describe sandbox %q", id)
	}
	// the template may have sandboxd
	err = d.start(ctx, id, m, config)
	if !isGone(err) {
		return err
	}

	if err := m.envd.Upload(ctx, d.sandboxd.path, d.sandboxd.content); err != nil {
		return fault.Wrap(fault.Unavailable, err, "push sandboxd into sandbox %q", id)
	}

	return d.start(ctx, id, m, config)
}

// start starts sandboxd and returns when it answers. The process outlives its event stream.
func (d *Driver) start(ctx context.Context, id string, m machine, config string) error {
	// a deadline would end sandboxd
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	ended := make(chan error, 1)

	stream, err := m.envd.Start(running, &envd.StartRequest{Process: envd.ProcessConfig{
		Cmd: "/bin/sh",
		Args: []string{
			"-c", `chmod 0755 "$0" || exit 127; exec "$0" ` + nested.Command + ` "$1" </dev/null`,
			d.sandboxd.path, config,
		},
		Cwd: "/",
	}})
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "start sandboxd in sandbox %q", id)
	}
	// ends with running
	go func() { ended <- lastWords(stream) }()

	ctx, stop := context.WithTimeout(ctx, startTime)
	defer stop()

	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		select {
		case cause := <-ended:
			return fault.Wrap(fault.Unavailable, cause, "start sandboxd in sandbox %q", id)
		default:
		}

		conn, err := d.dial(ctx, m)
		if err == nil {
			return conn.Close()
		}

		if waitErr := clock.Sleep(ctx, pause); waitErr != nil {
			return fault.Wrap(fault.Unavailable, errors.Join(waitErr, err), "sandboxd in sandbox %q does not answer",
				id)
		}
	}
}

// maxSaid bounds the kept part of a process's stderr, in bytes.
const maxSaid = 1000

// lastWords waits for the unexpected end of a process, and returns an error with its output.
func lastWords(stream eventStream) error {
	var output bytes.Buffer

	for stream.Receive() {
		e := stream.Msg().Event
		if e.Data != nil {
			text := append(e.Data.Stderr, e.Data.Stdout...)
			output.Write(text[:min(len(text), maxSaid-output.Len())])
		}

		if e.End != nil && e.End.ExitCode == notFoundStatus {
			return &goneError{output.String()}
		}

		if e.End != nil {
			return fmt.Errorf("it ended: %s %s %q", e.End.Status, e.End.Error, output.String())
		}
	}

	return fmt.Errorf("the stream of its events ended: %w", stream.Err())
}

// killMachine kills a machine. It does nothing if the machine is gone.
func (d *Driver) killMachine(ctx context.Context, id, machineID string) error {
	d.forget(id)

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()

	return fault.Ignore(d.api.Kill(ctx, machineID), fault.NotFound)
}
