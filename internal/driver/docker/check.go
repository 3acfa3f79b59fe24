package docker

import (
	"cmp"
	"context"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/system"

	"github.com/rolloutd/rolloutd/internal/driver"
)

// Check implements driver.Checker.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	info, err := d.daemon(ctx)
	if err != nil {
		return []driver.Finding{
			{
				Name:   "Docker daemon",
				Level:  driver.Fail,
				Detail: err.Error(),
				Fix:    "start it (systemctl start docker), set DOCKER_HOST to its address, or take docker out of sandbox.backends",
			},
		}
	}

	all := d.findings(info)
	if d.o.Image == "" {
		return all
	}

	f := driver.Finding{Name: "Docker image", Detail: d.o.Image}
	if _, err := d.base(ctx, d.o.Image); err != nil {
		f.Level, f.Detail, f.Fix = driver.Fail, err.Error(), "docker pull, or set sandbox.docker.image to an image that the daemon has"
	}

	return append(all, f)
}

// findings reports whether the daemon has what sandboxes need.
func (d *Driver) findings(info *system.Info) []driver.Finding {
	return []driver.Finding{
		d.checkDaemon(info), checkLimits(info), checkFilter(info), d.checkRuntime(info), d.checkControl(info),
		checkUsers(info),
	}
}

func (d *Driver) checkDaemon(info *system.Info) driver.Finding {
	f := driver.Finding{
		Name:   "Docker daemon",
		Detail: info.ServerVersion + " at " + d.o.Daemon.address() + ", storage " + info.Driver,
	}
	if info.OSType != "linux" || !slices.Contains(machines(), info.Architecture) {
		f.Level, f.Detail = driver.Fail, "runs on "+info.OSType+"/"+info.Architecture
		f.Fix = "use a daemon on linux/" + machines()[0] + ", for which this rolloutd is built"
	}

	return f
}

func checkLimits(info *system.Info) driver.Finding {
	f := driver.Finding{
		Name:   "Docker limits",
		Detail: "cgroup version " + info.CgroupVersion + ": memory, processes, cpu",
	}

	var missing []string

	for name, has := range map[string]bool{
		"memory":    info.MemoryLimit,
		"processes": info.PidsLimit,
		"cpu":       info.CPUCfsQuota,
	} {
		if !has {
			missing = append(missing, name)
		}
	}

	if len(missing) > 0 {
		slices.Sort(missing)
		f.Level, f.Detail, f.Fix = driver.Fail, "none of "+strings.Join(
			missing,
			", ",
		), "enable these cgroup controllers on the daemon's machine"
	}

	return f
}

func checkFilter(info *system.Info) driver.Finding {
	f := driver.Finding{Name: "Docker system call filter", Detail: "given with each container"}
	if !slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=seccomp") }) {
		f.Level, f.Detail, f.Fix = driver.Fail, "the daemon has no seccomp", "use a daemon whose kernel has it (CONFIG_SECCOMP_FILTER)"
	}

	return f
}

func (d *Driver) checkRuntime(info *system.Info) driver.Finding {
	f := driver.Finding{Name: "Docker runtime", Detail: "the default, " + info.DefaultRuntime}
	if name := cmp.Or(d.o.Runtime, info.DefaultRuntime); isGVisor(name, info.Runtimes[name]) {
		f.Level, f.Detail = driver.Fail, name+" is gVisor, which lacks the system call setfsuid, so no file could be moved to or from a sandbox"
		f.Fix = "use runc or a Kata runtime"

		return f
	}

	if d.o.Runtime == "" {
		return f
	}

	f.Detail = d.o.Runtime
	if _, ok := info.Runtimes[d.o.Runtime]; !ok && !strings.HasPrefix(d.o.Runtime, "io.containerd.") {
		f.Level = driver.Fail
		f.Detail = "sandbox.docker.runtime: the daemon has no " + d.o.Runtime + "; it has " + strings.Join(
			slices.Sorted(maps.Keys(info.Runtimes)),
			", ",
		)
		f.Fix = "add it to the daemon's configuration (daemon.json, runtimes), or name another"
	}

	return f
}

// isGVisor reports whether a runtime is runsc, by its program or its shim.
func isGVisor(name string, r system.RuntimeWithStatus) bool {
	return path.Base(r.Path) == "runsc" || slices.ContainsFunc([]string{
		name, r.Type,
	}, func(s string) bool { return strings.HasPrefix(s, "io.containerd.runsc.") })
}

func (d *Driver) checkControl(info *system.Info) driver.Finding {
	f := driver.Finding{Name: "Docker control connections", Detail: "by sockets in " + d.o.Dir}
	if !d.local(info) {
		f.Detail = "by exec: each costs some 50 ms, and agents are uploaded into each sandbox"
		if d.o.Daemon.here() && !d.o.Remote {
			f.Level, f.Fix = driver.Warn, "run the worker as root, with a daemon that is neither rootless nor remaps users: sockets are faster"
		}
	}

	return f
}

// checkUsers reports whether an agent may be root or another user of its image. Few tasks need that, so its
// absence is not a fault.
func checkUsers(info *system.Info) driver.Finding {
	f := driver.Finding{
		Name:   "Docker users of images",
		Detail: "mapped to unprivileged ones of the daemon's machine: an agent may be root of its image",
	}
	if !mapsUsers(info) {
		f.Detail = "none: root of a container is root of the daemon's machine, so tasks with sandbox.user are refused; userns-remap in daemon.json allows them"
	}

	return f
}

// machines returns the names of this machine's architecture in Go and in the kernel.
func machines() []string {
	names := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	return []string{runtime.GOARCH, names[runtime.GOARCH]}
}
