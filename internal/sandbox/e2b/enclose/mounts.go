package enclose

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// devices are those of the machine that a sandbox has.
func devices() []string { return []string{"null", "zero", "full", "random", "urandom", "tty"} }

// mounts covers what the sandbox must not see of the machine, and gives it the folders that it writes to, all in memory and with a size.
func mounts(c Config) error {
	unix.Umask(0)
	defer unix.Umask(0o022)
	// What is mounted here does not reach the machine.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return err
	}
	// Processes are shown to their own user, and to sandboxd's group, which the verifier is in.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=invisible,gid=0"); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := dev(c); err != nil {
		return fmt.Errorf("/dev: %w", err)
	}
	for _, m := range []struct {
		at   string
		mib  int
		mode string
	}{
		{"/sys", 1, "0555"}, {"/run", 16, "0755"}, {"/tmp", c.TmpMiB, "1777"}, {"/var/tmp", c.TmpMiB, "1777"},
		{wire.AgentHome, c.HomeMiB, "0755"}, {verifier, c.HomeMiB, "0755"},
	} {
		if err := tmpfs(m.at, m.mib, m.mode); err != nil {
			return err
		}
	}
	if err := readOnly("/sys"); err != nil {
		return err
	}
	if err := folders(); err != nil {
		return err
	}
	return os.Chdir(wire.AgentHome)
}

func tmpfs(at string, mib int, mode string) error {
	err := unix.Mount("rolloutd", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%dm,mode=%s", mib, mode))
	if err != nil {
		return fmt.Errorf("tmpfs on %s: %w", at, err)
	}
	return nil
}

func readOnly(at string) error {
	err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
	if err != nil {
		return fmt.Errorf("%s read-only: %w", at, err)
	}
	return nil
}

// dev makes a folder of devices that holds harmless ones only, with terminals of its own.
func dev(c Config) error {
	sources := map[string]*os.File{}
	for _, name := range devices() {
		fd, err := unix.Open("/dev/"+name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f := os.NewFile(uintptr(fd), name)
		defer f.Close()
		sources[name] = f
	}
	if err := tmpfs("/dev", 1, "0755"); err != nil {
		return err
	}
	for name, source := range sources {
		if err := os.WriteFile("/dev/"+name, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", source.Fd()), "/dev/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return err
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := os.Mkdir("/dev/"+name, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("terminals: %w", err)
	}
	if err := tmpfs("/dev/shm", max(c.TmpMiB/4, 1), "1777"); err != nil {
		return err
	}
	return readOnly("/dev")
}
