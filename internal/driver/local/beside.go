package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const (
	// volumesDir has the volumes of a sandbox in its folder, each a file system in memory.
	volumesDir = "volumes"

	// noModelAddr is where sandboxd listens for model calls in a sandbox without a model: the port of the
	// model channel is that of the sandbox beside it.
	noModelAddr = "127.0.0.1:0"

	maxVolumeInodes = 500_000
)

// checkServices refuses a sandbox with services that this host cannot have.
func (d *Driver) checkServices(spec driver.Spec) error {
	switch {
	case spec.Beside == "" && len(spec.Hosts) == 0 && len(spec.Volumes) == 0:
		return nil
	case spec.Image == "":
		return fault.Field("services", "need an image, also that of the agent")
	case d.uids == nil:
		return fault.Field("services",
			"need a worker that runs as root: an ordinary user cannot let one sandbox enter the network of another")
	}

	return nil
}

// joinNetwork lets the sandbox enter the network of the sandbox that it stands beside.
func (d *Driver) joinNetwork(l *launch, spec driver.Spec) error {
	if spec.Beside == "" {
		return nil
	}

	first, ok := readInit(d.path(spec.Beside))
	if !ok {
		return fault.New(fault.SandboxLost, "sandbox %q, beside which another is made, is gone", spec.Beside)
	}

	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", first.PID))
	if err != nil {
		return fault.Wrap(fault.SandboxLost, err, "network of sandbox %q", spec.Beside)
	}

	l.stage.Network = l.passFile(network)
	// the number may be that of another process by now
	if !first.same() {
		return fault.New(fault.SandboxLost, "sandbox %q, beside which another is made, is gone", spec.Beside)
	}

	return nil
}

// volumes creates the volumes that do not exist yet, and returns the names below the overlay at which the stage mounts
// them.
func (d *Driver) volumes(id string, spec driver.Spec) (map[string]string, error) {
	at := map[string]string{}

	for i, v := range spec.Volumes {
		folder := filepath.Join(d.path(spec.Main(id)), volumesDir, v.Name)
		if err := makeVolume(folder, spec.HomeMiB); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "volume %q", v.Name)
		}

		at[volumeName(i)] = folder
	}

	return at, nil
}

// volumeName is the name of a volume below the overlay.
func volumeName(i int) string { return "v" + strconv.Itoa(i) }

// makeVolume mounts a file system of that size at the folder, unless there is one. Its owner is root of every image.
func makeVolume(folder string, mib int) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}

	if mounted, err := isMount(folder); mounted || err != nil {
		return err
	}

	options := fmt.Sprintf("size=%dm,nr_inodes=%d,mode=0777", mib, maxVolumeInodes)

	return unix.Mount("rolloutd", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
}

// isMount reports whether the folder is in another file system than its parent.
func isMount(folder string) (bool, error) {
	var here, above unix.Stat_t

	err := errors.Join(unix.Lstat(folder, &here), unix.Lstat(filepath.Dir(folder), &above))

	return here.Dev != above.Dev, err
}

// dropVolumes removes the volumes in a sandbox's folder. No process of the sandbox lives; one that is beside it keeps
// its volumes until it ends.
func dropVolumes(dir string) error {
	all := filepath.Join(dir, volumesDir)

	entries, err := os.ReadDir(all)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}

	for _, e := range entries {
		folder := filepath.Join(all, e.Name())

		unmounted := unix.Unmount(folder, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(unmounted, unix.EINVAL) {
			// it was not mounted, or in the mount namespace of an earlier worker
			unmounted = nil
		}

		err = errors.Join(err, unmounted, os.Remove(folder))
	}

	return errors.Join(err, os.Remove(all))
}

// mountVolumes mounts the volumes at their folders.
func (c *composer) mountVolumes(volumes []driver.Volume) {
	for i, v := range volumes {
		bind := "--bind"
		if v.ReadOnly {
			bind = "--ro-bind"
		}

		c.opt(bind, filepath.Join(c.launch.stage.Overlay.At, volumeName(i)), v.Path)
	}
}

// modelAddr is where sandboxd listens for model calls.
func modelAddr(spec driver.Spec) string {
	if spec.Beside == "" {
		return wire.ModelAddr
	}

	return noModelAddr
}
