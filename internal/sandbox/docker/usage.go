package docker

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// Inspect implements driver.Inspector. Of a sandbox that ended by itself only an OOM kill is known, until its container is removed.
func (d *Driver) Inspect(ctx context.Context, id string) (driver.Usage, error) {
	u := driver.NoUsage()
	c, err := d.docker.ContainerInspect(ctx, d.container(id), client.ContainerInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(err):
		return u, fault.New(fault.SandboxLost, "sandbox %q is gone", id)
	case err != nil:
		return u, d.failed(err, "look at sandbox %q", id)
	case !lives(c.Container.State):
		u.OOMKills = 0
		if c.Container.State.OOMKilled {
			u.OOMKills = 1
		}
		return u, nil
	}
	u = d.counters(ctx, id)
	if info, err := d.daemon(ctx); err != nil || !d.local(info) {
		u.ForksRefused = -1 // an exec needs a process itself: it fails just when others do
	}
	return u, nil
}

// counters reads the sandbox's own cgroup, which it sees read-only: of version 2, else of version 1.
func (d *Driver) counters(ctx context.Context, id string) driver.Usage {
	read := func(path, key string) int64 { return d.number(ctx, id, "/sys/fs/cgroup/"+path, key) }
	if kills := read("memory.events", "oom_kill"); kills >= 0 {
		return driver.Usage{
			OOMKills: int(kills), ForksRefused: int(read("pids.events", "max")), PeakMemoryBytes: read("memory.peak", ""), CPU: scaled(read("cpu.stat", "usage_usec"), time.Microsecond),
		}
	}
	return driver.Usage{
		OOMKills:        int(read("memory/memory.oom_control", "oom_kill")),
		ForksRefused:    int(read("pids/pids.events", "max")),
		PeakMemoryBytes: read("memory/memory.max_usage_in_bytes", ""),
		CPU:             scaled(read("cpuacct/cpuacct.usage", ""), time.Nanosecond),
	}
}

// maxCounters bounds a file of counters, in bytes.
const maxCounters = 64 << 10

// number reads the number behind key in a file of "key number" lines of the sandbox, or the file's only number where key is "". It is -1 where
// there is none.
func (d *Driver) number(ctx context.Context, id, path, key string) int64 {
	res, err := d.get(ctx, id, "/v1/files?limit="+strconv.Itoa(maxCounters)+"&path="+url.QueryEscape(path))
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return -1
	}
	for lines := bufio.NewScanner(io.LimitReader(res.Body, maxCounters)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if key == "" && len(fields) == 1 || len(fields) == 2 && fields[0] == key {
			if n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64); err == nil {
				return n
			}
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
