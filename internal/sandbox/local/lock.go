package local

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// errBusy: another caller is making or destroying the sandbox right now.
var errBusy = errors.New("in use by another caller")

// folder is a sandbox's folder, locked. The lock is on the folder itself, so it goes away with it and leaves no lock files.
type folder struct {
	path string
	file *os.File
}

// lockFolder makes the folder if wanted and locks it, waiting for its holder. A missing one is an os.ErrNotExist.
func lockFolder(ctx context.Context, path string, create bool) (*folder, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		f, err := tryLockFolder(path, create)
		if !errors.Is(err, errBusy) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

func tryLockFolder(path string, create bool) (*folder, error) {
	if create {
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	file, err := os.Open(path)
	if create && errors.Is(err, os.ErrNotExist) {
		return nil, errBusy // destroyed since; it is made again next time
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errBusy
		}
		return nil, err
	}
	if !sameFile(file, path) {
		_ = file.Close()
		return nil, errBusy // locked one that was removed meanwhile
	}
	return &folder{path: path, file: file}, nil
}

func sameFile(f *os.File, path string) bool {
	a, err1 := f.Stat()
	b, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

func (f *folder) unlock() { _ = f.file.Close() }
