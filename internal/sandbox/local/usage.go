package local

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Inspect implements driver.Inspector. A sandbox that died by itself can be asked for an hour longer, a destroyed one not.
func (d *Driver) Inspect(_ context.Context, id string) (driver.Usage, error) {
	dir := d.path(id)
	if !exists(dir) {
		return driver.Usage{}, fault.New(fault.SandboxLost, "sandbox %q is gone", id)
	}
	s, err := readState(dir)
	if err != nil {
		return driver.Usage{}, fault.Wrap(fault.Internal, err, "state of sandbox %q", id)
	}
	if s.Usage != nil {
		return *s.Usage, nil
	}
	u := d.usage(s)
	if first, ok := readInit(dir); ok {
		u.FullFolders = first.fullFolders()
	}
	return u, nil
}

// usage is what the cgroups know.
func (d *Driver) usage(s state) driver.Usage {
	if d.cgroups == nil || s.Cgroup == "" {
		return driver.NoUsage()
	}
	return d.cgroups.usage(s.Cgroup)
}

// fullBelow is the free space, in bytes, below which a file system counts as full.
const fullBelow = 64 << 10

// fullFolders are the mount points of the sandbox that have no room. It asks their file systems from outside: nothing in the sandbox
// answers, and no link of the sandbox is followed.
func (p initProcess) fullFolders() []string {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", p.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(root)
	if !p.same() {
		return nil
	}
	var full []string
	for _, folder := range []string{"/", "/dev/shm", wire.AgentHome, "/run", "/tmp", verifierMount} {
		if isFull(root, folder) {
			full = append(full, folder)
		}
	}
	return full
}

// isFull says whether the file system mounted at a folder below root has no room for data or for another file.
func isFull(root int, folder string) bool {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(root, "."+folder, &how)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Blocks == 0 {
		return false
	}
	return st.Bavail*uint64(st.Bsize) < fullBelow || st.Files > 0 && st.Ffree == 0
}

// usage is what the sandbox used, and what its processes used of memory.
func (h *hierarchy) usage(name string) driver.Usage {
	if h.version == 2 {
		at := filepath.Join(h.root, parentCgroup, name)
		return driver.Usage{
			OOMKills:        int(keyed(at, "memory.events", "oom_kill")),
			ForksRefused:    int(keyed(filepath.Join(at, workCgroup), "pids.events", "max")),
			PeakMemoryBytes: keyed(filepath.Join(at, workCgroup), "memory.peak", ""),
			CPU:             scaled(keyed(at, "cpu.stat", "usage_usec"), time.Microsecond),
		}
	}
	work := filepath.Join(h.v1["memory"], parentCgroup, name, workCgroup)
	return driver.Usage{
		OOMKills:        int(keyed(work, "memory.oom_control", "oom_kill")),
		ForksRefused:    int(keyed(filepath.Join(h.v1["pids"], parentCgroup, name, workCgroup), "pids.events", "max")),
		PeakMemoryBytes: keyed(work, "memory.max_usage_in_bytes", ""),
		CPU:             scaled(keyed(filepath.Join(h.v1["cpuacct"], parentCgroup, name), "cpuacct.usage", ""), time.Nanosecond),
	}
}

// keyed reads the number behind key in a file of "key number" lines, or the file's only number where key is "". It is -1
// where there is none.
func keyed(folder, file, key string) int64 {
	f, err := os.Open(filepath.Join(folder, file))
	if err != nil {
		return -1
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case key == "" && len(fields) == 1:
		case len(fields) == 2 && fields[0] == key:
		default:
			continue
		}
		if n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64); err == nil {
			return n
		}
	}
	return -1
}

func scaled(n int64, unit time.Duration) time.Duration {
	if n < 0 {
		return -1
	}
	return time.Duration(n) * unit
}
