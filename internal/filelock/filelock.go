// Package filelock locks a resource of this host for one process. The lock is flock(2): it ends with its
// process, even if its file remains.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// HeldError means that another process holds the lock.
type HeldError struct {
	Path string

	// "NAME (process PID)", as the holder wrote it; may be empty
	Owner string
}

func (e *HeldError) Error() string {
	if e.Owner == "" {
		return e.Path + " is held by another process"
	}

	return e.Path + " is held by " + e.Owner
}

// Lock is a held lock.
type Lock struct{ file *os.File }

// Acquire acquires the lock at path, or returns a HeldError at once. It creates the file and never removes it:
// after a removal two processes could lock two files of the same name.
func Acquire(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}

	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(&HeldError{Path: path, Owner: owner(f)}, f.Close())
	}

	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}

	return &Lock{file: f}, sign(f)
}

// waitStep is the time between two tries of Wait.
const waitStep = 100 * time.Millisecond

// Wait acquires the lock at path once no other process holds it. If ctx ends first, the error names the holder.
func Wait(ctx context.Context, path string) (*Lock, error) {
	for {
		lock, err := Acquire(path)

		var held *HeldError
		if !errors.As(err, &held) {
			return lock, err
		}

		if err := clock.Sleep(ctx, waitStep); err != nil {
			return nil, errors.Join(err, held)
		}
	}
}

// Release releases the lock.
func (l *Lock) Release() error { return l.file.Close() }

// sign writes the holder's name into the file, for the error of other processes.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("sign lock: %w", err)
	}

	_, err := fmt.Fprintf(f, "%s (process %d)\n", filepath.Base(os.Args[0]), os.Getpid())

	return err
}

func owner(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 200))
	if err != nil {
		return ""
	}

	return strings.TrimSpace(string(text))
}
