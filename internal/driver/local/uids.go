package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// runDir is shared by all data folders of the host, whose user ids must not collide.
const runDir = "/run/rolloutd"

// Range of the sandboxes' user ids, which neither distributions nor subuid files nor systemd's containers
// use. It begins after the range of earlier versions, which gave one id to each sandbox.
const (
	firstUID = 1_900_100_000

	// maximum of sandboxes
	maxUIDs = 60_000

	// for sandboxd, the agent, the verifier, and one in reserve
	uidsOfEach = 4

	// Sandboxes of images also need the ids of the image's files. The last one is below 2^31.
	firstImageUID = 1_900_400_000
	maxImageUIDs  = 3_000
	imageUIDs     = 1 << 16
)

// uids gives each living sandbox a block of user ids. A block is taken while a process holds the lock on
// its file. The sandbox's first process inherits that lock, so the block is free when the sandbox has
// ended, even if its creator has died.
type uids struct {
	dir string

	// locks for sandboxes of images
	images string

	// an empty folder on which the stage mounts
	mounts string
}

func newUIDs(run string) (*uids, error) {
	u := &uids{
		dir:    filepath.Join(run, "uids"),
		images: filepath.Join(run, "image-uids"),
		mounts: filepath.Join(run, "mounts"),
	}
	for _, d := range []struct {
		path string
		mode os.FileMode
	}{{run, 0o755}, {u.dir, 0o700}, {u.images, 0o700}, {u.mounts, 0o755}} {
		if err := os.MkdirAll(d.path, d.mode); err != nil {
			return nil, err
		}
		// Ignore the umask: the sandbox's user must be able to enter it.
		if err := os.Chmod(d.path, d.mode); err != nil {
			return nil, err
		}
	}

	return u, nil
}

// acquireBlock returns the first user id of a free block and its open lock.
func (u *uids) acquireBlock() (int, *os.File, error) {
	return takeBlock(u.dir, firstUID, uidsOfEach, maxUIDs)
}

// takeImage is take for a sandbox of an image.
func (u *uids) takeImage() (int, *os.File, error) {
	return takeBlock(u.images, firstImageUID, imageUIDs, maxImageUIDs)
}

func takeBlock(dir string, first, each, most int) (int, *os.File, error) {
	for n := range most {
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(n)), os.O_RDONLY|os.O_CREATE, 0o600)
		if err != nil {
			return 0, nil, err
		}

		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return first + each*n, f, nil
		}

		_ = f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return 0, nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}

	return 0, nil, fault.New(fault.Exhausted, "all %d blocks of user ids are taken by living sandboxes", most)
}
