package local

import (
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Paths of the supervisor and of the programs that share its binary, in a sandbox.
const (
	ownMount      = "/opt/rolloutd"
	sandboxdMount = ownMount + "/sandboxd"
	programsMount = ownMount + "/bin"
	verifierMount = "/verifier"
)

// compose writes bwrap's command line. The options go through a descriptor and the environment is empty,
// because the sandbox can read both from /proc/1.
func (d *Driver) compose(l *launch, dir, id string, spec driver.Spec) error {
	c := &composer{launch: l, binds: map[string]string{}}
	c.isolate()

	hasPlace := d.uids != nil && spec.IsVerifier()
	if err := c.users(d.uids != nil, hasPlace); err != nil {
		return err
	}

	d.root(c)
	c.folders(spec)
	c.shared()
	c.mountVolumes(spec.Volumes)

	control, err := listen(dir)
	if err != nil {
		return err
	}

	controlFD := l.passFile(control)
	if l.namespace == nil {
		info, err := os.OpenFile(filepath.Join(dir, infoFile), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}

		c.opt("--info-fd", strconv.Itoa(l.passFile(info)))
	}
	// there sandboxd sets the filter itself, after it has made the place of the work
	if !hasPlace {
		c.data("--seccomp", "filter", d.filter)
	}

	env, err := l.env()
	if err != nil {
		return err
	}

	argsFD, err := l.addData("args", nulSeparated(c.args))
	if err != nil || c.err != nil {
		return errorsFirst(err, c.err)
	}

	l.stage.Binds = c.binds
	l.stage.Argv = append([]string{
		d.bwrap, "--args", strconv.Itoa(argsFD), "--",
	}, append(d.serveArgs(l, controlFD, id, spec), env...)...)

	return nil
}

func errorsFirst(a, b error) error {
	if a != nil {
		return a
	}

	return b
}

func (d *Driver) serveArgs(l *launch, controlFD int, id string, spec driver.Spec) []string {
	processes := spec.PIDs
	if d.cgroups != nil {
		// the limit of the cgroup is reached first, and counts refusals; it does not apply to sandboxd's forks
		processes++
	}

	var filter []byte
	if d.uids != nil && spec.IsVerifier() {
		filter = d.filter
	}

	return []string{
		sandboxdMount, "serve", "--control-fd", strconv.Itoa(controlFD), "--id", id, "--model-addr", modelAddr(spec),
		"--lease", spec.Lease.String(),
		"--tree-limit", strconv.Itoa(treeMiB(spec) << 20),
		"--max-processes", strconv.Itoa(processes),
		"--cgroup-fds", strings.Join(l.cgroups, ","), "--cgroup-folder-fd", strconv.Itoa(l.work),
		"--reclaim-fd", strconv.Itoa(l.reclaim),
		"--separate-users=" + strconv.FormatBool(d.uids != nil),
		"--filter", base64.StdEncoding.EncodeToString(filter),
	}
}

// maxTreeMiB bounds a tar of folders with files of an image.
const maxTreeMiB = 4096

// treeMiB bounds the files of a tar by the sandbox's memory, into which they are unpacked. Unchanged files
// of an image are in the tar too, but are not written again.
func treeMiB(spec driver.Spec) int {
	if spec.Image != "" {
		return maxTreeMiB
	}

	return min(spec.HomeMiB, spec.MemoryMiB)
}

// composer collects bwrap's options.
type composer struct {
	launch *launch
	args   []string

	// binds that the stage makes
	binds map[string]string
	err   error
}

func (c *composer) opt(args ...string) { c.args = append(c.args, args...) }

// data adds an option whose value is a descriptor with data, followed by rest.
func (c *composer) data(option, name string, data []byte, rest ...string) {
	fd, err := c.launch.addData(name, data)
	if err != nil {
		c.err = err
		return
	}

	c.opt(option, strconv.Itoa(fd))
	c.opt(rest...)
}

// bind mounts a host path read-only.
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

// isolate sets namespaces. There is no --die-with-parent: a sandbox outlives the worker that created it,
// and sandboxd's lease ends it.
func (c *composer) isolate() {
	c.opt("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts",
		"--hostname", "sandbox", "--new-session", "--as-pid-1", "--clearenv")

	if c.launch.stage.Network == 0 {
		c.opt("--unshare-net")
	}

	if c.launch.stage.CgroupNamespace == 0 {
		c.opt("--unshare-cgroup")
	}

	if c.launch.stage.Overlay == nil {
		// bwrap makes the parents of a mount point accessible to its user only
		c.dir("/home")
	}
}

// dir creates a world-readable folder and its parents.
func (c *composer) dir(path string) { c.opt("--perms", "0755", "--dir", path) }

// users sets sandboxd's user inside. With separate users it is 0 and has the capabilities to prepare the
// sandbox; then it drops most of them. bwrap waits until the driver has written the map of user ids.
// Otherwise everything runs as the agent's user.
//
// A sandbox with a place of the work needs one more capability, to make that place.
func (c *composer) users(separate, hasPlace bool) error {
	if !separate {
		id := strconv.Itoa(wire.AgentID)
		c.opt("--disable-userns", "--uid", id, "--gid", id)

		if c.launch.mapped {
			// bwrap is root in the stage's user namespace, and would pass on its capabilities
			c.opt("--cap-drop", "ALL")
		}

		return nil
	}

	names := []string{"SETUID", "SETGID", "KILL", "CHOWN", "SETPCAP", "SYS_RESOURCE", "DAC_OVERRIDE", "FOWNER"}
	if hasPlace {
		names = append(names, "SYS_ADMIN")
	}

	if c.launch.guest.IsRoot() {
		names = append(names, "FSETID", "NET_BIND_SERVICE")
	}

	for _, name := range names {
		c.opt("--cap-add", "CAP_"+name)
	}

	n, err := newNamespace(c.launch.ids())
	if err != nil {
		return err
	}

	c.launch.namespace = n
	c.opt(
		"--info-fd",
		strconv.Itoa(c.launch.passFile(n.childInfo)),
		"--userns-block-fd",
		strconv.Itoa(c.launch.passFile(n.childGo)),
	)

	return nil
}

// shared mounts the image's workdir at the path that every sandbox has, and further graded folders below
// the home, with which they are copied to the verifier. In a verifier's sandbox it makes the folders for
// the agent's files writable. The stage has checked that the paths contain no links.
func (c *composer) shared() {
	if c.launch.stage.Overlay == nil {
		return
	}

	g, at := c.launch.guest, func(p string) string { return filepath.Join(c.launch.stage.Overlay.At, "root", p) }
	if g.Verifier {
		for _, p := range append([]string{wire.AgentHome, wire.Tmp}, g.Writable()...) {
			c.opt("--bind", at(p), p)
		}
	}

	names := g.Names()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c.opt("--bind", at(names[name]), name)
	}

	if !g.Verifier {
		return
	}

	for i, p := range g.Changed {
		if p != "" {
			c.opt("--bind", at(p), p, "--bind", at(p), wire.AgentChanged+"/"+strconv.Itoa(i))
		}
	}
}

// folders adds the writable folders and makes the rest read-only.
func (c *composer) folders(spec driver.Spec) {
	c.opt("--proc", "/proc", "--dev", "/dev")
	c.tmpfs("/dev/shm", max(spec.TmpMiB/4, 1), "1777")
	c.tmpfs("/run", 16, "0755")

	if c.launch.stage.Overlay == nil {
		c.tmpfs(wire.Tmp, spec.TmpMiB, "1777")
		c.tmpfs(wire.AgentHome, spec.HomeMiB, "0755")
		c.opt("--dir", wire.AgentWorkdir)
	}

	c.tmpfs(verifierMount, spec.HomeMiB, "0755")

	for _, folder := range []string{wire.VerifierHome, wire.VerifierTests, wire.VerifierLogs, wire.VerifierRun} {
		c.opt("--perms", "0700", "--dir", folder)
	}

	if c.launch.guest.OwnImage {
		c.opt("--bind", filepath.Join(c.launch.stage.Overlay.At, "root", wire.ImageTests), wire.VerifierTests)
	}

	c.opt("--symlink", sandboxdMount, programsMount+"/"+runas.Name)
	// All are in memory; /dev and a root made of pieces have no size limit of their own.
	fixed := "/"
	if c.launch.stage.Overlay != nil {
		fixed = ownMount
	}

	c.opt("--remount-ro", "/dev", "--remount-ro", fixed, "--chdir", wire.AgentHome)
}
