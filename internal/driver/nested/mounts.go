package nested

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// devices are the machine's devices that a sandbox has.
func devices() []string { return []string{"null", "zero", "full", "random", "urandom", "tty"} }

// mounts sets the sandbox's root file system, hides what it must not see, and mounts its writable folders,
// in memory and with a size.
func mounts(c Config) error {
	unix.Umask(0)
	defer unix.Umask(0o022)
	// Mounts made here must not propagate to the machine or the container.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return err
	}

	own := places{tmpMiB: c.TmpMiB, homeMiB: c.HomeMiB}
	if c.Image == nil {
		if err := own.proc("/proc"); err != nil {
			return err
		}

		return errors.Join(own.mountAll(), own.mountHome())
	}

	own.owner = wire.SupervisorID

	grafts, err := c.Image.enter(own)
	if err == nil {
		err = own.mountAll()
	}

	for _, g := range grafts {
		if err == nil {
			err = g.set()
		}
	}

	return err
}

// places mounts what every sandbox has, below "/".
type places struct {
	// owner of the files that neither the agent nor the verifier may use: sandboxd
	owner           int
	homeMiB, tmpMiB int
}

// proc shows processes only to their user and to sandboxd's group, which includes the verifier.
func (p places) proc(at string) error {
	err := unix.Mount(
		"proc",
		at,
		"proc",
		unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		fmt.Sprintf("hidepid=invisible,gid=%d", p.owner),
	)
	if err != nil {
		return fmt.Errorf("/proc: %w", err)
	}

	return nil
}

// mountHome mounts the agent's home and the folders for temporary files, which are the image's where there is one.
func (p places) mountHome() error {
	return errors.Join(
		p.tmpfs(wire.Tmp, p.tmpMiB, "1777"), p.tmpfs("/var/tmp", p.tmpMiB, "1777"), p.tmpfs(wire.AgentHome, p.homeMiB, "0755"),
		os.Mkdir(wire.AgentWorkdir, 0o755), os.Chdir(wire.AgentHome),
	)
}

// mountAll mounts everything except /proc and what mountHome mounts.
func (p places) mountAll() error {
	if err := p.dev(); err != nil {
		return fmt.Errorf("/dev: %w", err)
	}

	for _, m := range []struct {
		at   string
		mib  int
		mode string
	}{
		{"/sys", 1, "0555"}, {"/run", 16, "0755"}, {verifier, p.homeMiB, "0755"},
	} {
		if err := p.tmpfs(m.at, m.mib, m.mode); err != nil {
			return err
		}
	}

	if err := readOnly("/sys"); err != nil {
		return err
	}

	for _, path := range []string{wire.VerifierHome, wire.VerifierTests, wire.VerifierLogs, wire.VerifierRun} {
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, p.owner, p.owner)); err != nil {
			return err
		}
	}

	return nil
}

func (p places) tmpfs(at string, mib int, mode string) error {
	options := fmt.Sprintf("size=%dm,mode=%s,uid=%d,gid=%d", mib, mode, p.owner, p.owner)
	if err := unix.Mount("rolloutd", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
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

// dev mounts a folder of harmless devices, with terminals of its own.
func (p places) dev() error {
	sources := map[string]*os.File{}

	for _, name := range devices() {
		f, err := openDevice(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer f.Close()

		sources[name] = f
	}

	if err := p.tmpfs("/dev", 1, "0755"); err != nil {
		return err
	}

	for name, source := range sources {
		if err := bindDevice(name, source); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}

	for name, target := range map[string]string{
		"ptmx":   "pts/ptmx",
		"fd":     "/proc/self/fd",
		"stdin":  "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return err
		}
	}

	if err := mountTerminals("/dev/pts"); err != nil {
		return fmt.Errorf("terminals: %w", err)
	}

	if err := os.Mkdir("/dev/shm", 0o755); err != nil {
		return err
	}

	if err := p.tmpfs("/dev/shm", max(p.tmpMiB/4, 1), "1777"); err != nil {
		return err
	}

	return readOnly("/dev")
}

// openDevice opens a device of the machine only to be mounted elsewhere.
func openDevice(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/"+name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}

	return os.NewFile(uintptr(fd), name), nil
}

// bindDevice mounts an open device in the sandbox's own /dev.
func bindDevice(name string, source *os.File) error {
	at := "/dev/" + name
	if err := os.WriteFile(at, nil, 0o666); err != nil {
		return err
	}

	return unix.Mount(fmt.Sprintf("/proc/self/fd/%d", source.Fd()), at, "", unix.MS_BIND, "")
}

// mountTerminals mounts terminals that no other sandbox sees.
func mountTerminals(at string) error {
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}

	return unix.Mount("devpts", at, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
}
