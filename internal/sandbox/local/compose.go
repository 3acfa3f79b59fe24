package local

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// User of every process in a sandbox, and where its supervisor lies.
const (
	userID        = "1000"
	sandboxdMount = "/opt/rolloutd/sandboxd"
)

// compose writes bwrap's command line. Its options go through a descriptor and its environment is empty, because both can be
// read inside, from /proc/1.
func (d *Driver) compose(l *launch, dir, id string, spec driver.Spec) error {
	c := &composer{launch: l, binds: map[string]string{}}
	c.isolate()
	d.root(c, spec)
	c.user(spec)
	control, err := listen(dir)
	if err != nil {
		return err
	}
	controlFD := l.add(control)
	info, err := os.OpenFile(filepath.Join(dir, infoFile), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	c.opt("--info-fd", strconv.Itoa(l.add(info)))
	c.data("--seccomp", "filter", d.filter)
	argsFD, err := l.addData("args", nulSeparated(c.args))
	if err != nil || c.err != nil {
		return errorsFirst(err, c.err)
	}
	l.stage.Binds = c.binds
	l.stage.Argv = append([]string{d.bwrap, "--args", strconv.Itoa(argsFD), "--"}, serveArgs(controlFD, id, spec)...)
	return nil
}

func errorsFirst(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func serveArgs(controlFD int, id string, spec driver.Spec) []string {
	return []string{
		sandboxdMount, "serve", "--control-fd", strconv.Itoa(controlFD), "--id", id,
		"--lease", spec.Lease.String(),
		"--tree-limit", strconv.Itoa(2 * spec.HomeMiB << 20),
		"--max-processes", strconv.Itoa(spec.PIDs),
	}
}

// composer collects bwrap's options.
type composer struct {
	launch *launch
	args   []string
	binds  map[string]string // for the stage
	err    error
}

func (c *composer) opt(args ...string) { c.args = append(c.args, args...) }

// data adds an option whose value is a descriptor to read data from, and what follows that.
func (c *composer) data(option, name string, data []byte, rest ...string) {
	fd, err := c.launch.addData(name, data)
	if err != nil {
		c.err = err
		return
	}
	c.opt(option, strconv.Itoa(fd))
	c.opt(rest...)
}

// bind shows a host path in the sandbox, read-only.
func (c *composer) bind(source, target string) {
	if c.launch.stage.Mounts != "" {
		name := "b" + strconv.Itoa(len(c.binds))
		c.binds[name] = source
		source = filepath.Join(c.launch.stage.Mounts, name)
	}
	c.opt("--ro-bind", source, target)
}

func (c *composer) tmpfs(target string, mib int, mode string) {
	c.opt("--perms", mode, "--size", strconv.Itoa(mib<<20), "--tmpfs", target)
}

// isolate: no --die-with-parent, a sandbox outlives the worker that made it; sandboxd's lease is what ends it.
func (c *composer) isolate() {
	c.opt("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup",
		"--disable-userns", "--uid", userID, "--gid", userID, "--hostname", "sandbox",
		"--new-session", "--as-pid-1", "--clearenv")
}

// user adds what the agent can write to, and closes the rest.
func (c *composer) user(spec driver.Spec) {
	c.opt("--proc", "/proc", "--dev", "/dev")
	c.tmpfs("/dev/shm", max(spec.TmpMiB/4, 1), "1777")
	c.tmpfs("/run", 16, "0755")
	c.tmpfs("/tmp", spec.TmpMiB, "1777")
	c.tmpfs(rollout.Home, spec.HomeMiB, "0755")
	c.opt("--dir", rollout.Workdir)
	// Both are memory-backed with no size of their own, and the user's.
	c.opt("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", rollout.Home)
}
