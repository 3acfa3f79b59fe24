package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Check implements driver.Checker.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	return []driver.Finding{
		d.checkBwrap(ctx),
		d.checkUser(),
		d.checkCgroups(),
		{Name: "system call filter", Detail: fmt.Sprintf("%d instructions", len(d.filter)/8)},
		d.checkProgram("rg", "the agent's search tools need ripgrep", "apt install ripgrep"),
		d.checkProgram("python3", "many tasks and verifiers need python3", "apt install python3"),
		d.checkProgram("bash", "setup and verifier commands need bash", "apt install bash"),
		d.checkProbe(ctx),
		d.checkImages(ctx),
	}
}

// checkImages creates a sandbox of an empty image.
func (d *Driver) checkImages(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "OCI images"}
	if d.images == nil {
		f.Detail = "none here"
		return f
	}

	id, spec := "probe-"+rand.Text(), probeSpec()

	spec.Image = "doctor"
	if d.uids != nil {
		spec.User = rollout.UserRoot
	}

	err := d.create(ctx, id, spec)
	if err = errors.Join(err, d.Destroy(context.WithoutCancel(ctx), id)); err != nil {
		f.Level, f.Detail = driver.Warn, "cannot be mounted: "+err.Error()
		f.Fix = "Linux 5.19 with overlayfs and images on ext4, xfs or btrfs (as an ordinary user: Linux 5.11); tasks without an image run"

		return f
	}

	f.Detail = "mounted by overlayfs; files belong to unprivileged user ids, and an agent may be root of its image"
	if d.uids == nil {
		f.Level, f.Detail, f.Fix = driver.Warn, "mounted by overlayfs; all files belong to the agent, which cannot be root of its image",
			"run the worker as root: files then keep their owners"
	}

	return f
}

func (d *Driver) checkBwrap(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "bubblewrap"}

	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	out, err := exec.CommandContext(ctx, d.bwrap, "--version").Output()
	if err != nil {
		f.Level, f.Detail, f.Fix = driver.Fail, err.Error(), "apt install bubblewrap"
		return f
	}

	f.Detail = strings.TrimSpace(string(out)) + " at " + d.bwrap

	return f
}

func (d *Driver) checkUser() driver.Finding {
	f := driver.Finding{Name: "users of a sandbox"}
	if d.uids == nil {
		f.Level = driver.Warn
		f.Detail = fmt.Sprintf("sandboxd, agent and verifier of every sandbox run as the user %d of this process: "+
			"a hostile agent can disturb grading by processes that it left running", os.Geteuid())
		f.Fix = "run the worker as root: each sandbox then gets user ids of its own"

		return f
	}

	f.Detail = fmt.Sprintf("separate for sandboxd, agent and verifier, from %d on", firstUID)

	return f
}

func (d *Driver) checkCgroups() driver.Finding {
	f := driver.Finding{Name: "cgroup limits"}

	switch {
	case d.cgroups != nil:
		f.Detail = fmt.Sprintf("version %d: memory, processes, cpu, with counters of what ran out", d.cgroups.Version)
		if d.cgroups.Root == "" {
			f.Level, f.Fix = driver.Warn, "mount cgroup2 at /sys/fs/cgroup/unified: it kills all processes at once"
		}
	case d.uids == nil:
		f.Level, f.Detail = driver.Warn, "none: only a worker that runs as root uses cgroups, delegated ones included; results report a full disk, but not exhausted memory or processes"
		f.Fix = "run the worker as root"
	default:
		f.Level, f.Detail = driver.Warn, "none, allowed by configuration"
		f.Fix = "mount the memory, pids and cpu controllers writable"
	}

	return f
}

func (d *Driver) checkProgram(name, why, fix string) driver.Finding {
	f := driver.Finding{Name: name + " in the root file system"}
	for _, dir := range []string{"usr/local/bin", "usr/bin", "bin"} {
		if path := filepath.Join("/", d.standard, dir, name); exists(path) {
			f.Detail = path
			return f
		}
	}

	f.Level, f.Detail, f.Fix = driver.Warn, "missing: "+why, fix

	return f
}

func (d *Driver) checkProbe(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "isolation"}

	findings, err := d.probe(ctx)
	if err != nil {
		f.Level, f.Detail = driver.Fail, err.Error()
		f.Fix = "check that unprivileged user namespaces are allowed (sysctl kernel.unprivileged_userns_clone, " +
			"kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces)"

		return f
	}

	f.Detail = fmt.Sprintf("%d ways out tried from inside, all refused", len(findings))

	return f
}
