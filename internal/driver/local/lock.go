package local

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// errBusy means that another caller is creating or destroying the sandbox.
var errBusy = errors.New("in use by another caller")

// folder is the locked folder of a sandbox. The folder itself is the lock file, so no lock files are left behind.
type folder struct {
	path string
	file *os.File
}

// lockFolder locks the folder, waiting for its holder, and creates it first if create is set. A missing
// folder is an os.ErrNotExist.
func lockFolder(ctx context.Context, path string, create bool) (*folder, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		f, err := tryLockFolder(path, create)
		if !errors.Is(err, errBusy) {
			return f, err
		}

		if err := clock.Sleep(ctx, pause); err != nil {
			return nil, err
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
		// destroyed meanwhile; the next try creates it
		return nil, errBusy
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
		// the locked folder was removed meanwhile
		return nil, errBusy
	}

	return &folder{path: path, file: file}, nil
}

func sameFile(f *os.File, path string) bool {
	a, err1 := f.Stat()
	b, err2 := os.Stat(path)

	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

func (f *folder) unlock() { _ = f.file.Close() }
