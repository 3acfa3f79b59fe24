// Package filelock makes one process the owner of something on this host. The lock is the kernel's (flock), so it ends with
// its process however that ends, and a lock file left behind locks nothing.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// HeldError means that another process holds the lock.
type HeldError struct {
	Path  string
	Owner string // as the holder wrote it: "NAME (process PID)"; may be empty
}

func (e *HeldError) Error() string {
	if e.Owner == "" {
		return e.Path + " is held by another process"
	}
	return e.Path + " is held by " + e.Owner
}

// Lock is a held lock.
type Lock struct{ file *os.File }

// Take takes the lock at path, or returns a HeldError at once. The file is made when missing and stays: removing it would let
// two processes lock two files of one name.
func Take(path string) (*Lock, error) {
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

// Release gives the lock up.
func (l *Lock) Release() error { return l.file.Close() }

// sign writes who holds the lock, for the message that the next one gets.
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
