package launcher

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// gather binds the sources of the sandbox below one folder that the sandbox's user can reach: it may not
// reach the sources themselves (a home directory, a private data folder). No other process sees the mounts,
// and they end with the sandbox.
func gather(c Config) error {
	if c.Mounts == "" {
		return nil
	}

	if err := unix.Mount("rolloutd", c.Mounts, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=0755"); err != nil {
		return fmt.Errorf("tmpfs on %s: %w", c.Mounts, err)
	}

	for name, source := range c.Binds {
		if err := bind(source, filepath.Join(c.Mounts, name)); err != nil {
			return fmt.Errorf("%s from %s: %w", name, source, err)
		}
	}

	return nil
}

// bind mounts source read-only on a new target of its type.
func bind(source, target string) error {
	st, err := os.Stat(source)
	if err != nil {
		return err
	}

	if st.IsDir() {
		err = os.Mkdir(target, 0o755)
	} else {
		err = os.WriteFile(target, nil, 0o644)
	}

	if err != nil {
		return err
	}

	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}

	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
}
