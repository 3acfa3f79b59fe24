package local

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
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
	return d.usage(s), nil
}

func (d *Driver) usage(s state) driver.Usage {
	if d.cgroups == nil || s.Cgroup == "" {
		return driver.Usage{OOMKills: -1, PeakMemoryBytes: -1, CPU: -1}
	}
	return d.cgroups.usage(s.Cgroup)
}

// usage is what the sandbox used, and what its processes used of memory.
func (h *hierarchy) usage(name string) driver.Usage {
	if h.version == 2 {
		at := filepath.Join(h.root, parentCgroup, name)
		return driver.Usage{
			OOMKills:        int(keyed(at, "memory.events", "oom_kill")),
			PeakMemoryBytes: keyed(filepath.Join(at, workCgroup), "memory.peak", ""),
			CPU:             scaled(keyed(at, "cpu.stat", "usage_usec"), time.Microsecond),
		}
	}
	work := filepath.Join(h.v1["memory"], parentCgroup, name, workCgroup)
	return driver.Usage{
		OOMKills:        int(keyed(work, "memory.oom_control", "oom_kill")),
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
