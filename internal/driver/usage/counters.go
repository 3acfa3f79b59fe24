package usage

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
)

// Counters are the folders whose files count what a sandbox used. The zero value has none.
type Counters struct {
	// folder that counts the processes killed for want of memory
	Kills string `json:"kills"`

	// folder that counts those of sandboxd, which Kills counts in version 2 alone
	Sandboxd string `json:"sandboxd,omitempty"`

	// folders that count what was used
	Memory string `json:"memory"`
	PIDs   string `json:"pids"`
	CPU    string `json:"cpu"`
}

// InContainer are those that a container sees of itself, in a cgroup namespace of its own: in one folder
// where its machine has version 2, else in one for each controller.
func InContainer(version2 bool) Counters {
	const root = "/sys/fs/cgroup"
	if version2 {
		return Counters{Kills: root, Memory: root, PIDs: root, CPU: root}
	}

	return Counters{Kills: root + "/memory", Memory: root + "/memory", PIDs: root + "/pids", CPU: root + "/cpuacct"}
}

// Read reads the counters: those of version 2 where there are such, else those of version 1. A number that
// is not there is -1.
func (c Counters) Read() driver.Usage {
	if c == (Counters{}) {
		return driver.NoUsage()
	}

	u := driver.Usage{ForksRefused: int(Keyed(c.PIDs, "pids.events", "max"))}
	if kills := Keyed(c.Kills, "memory.events", "oom_kill"); kills >= 0 {
		u.OOMKills, u.Killed = int(kills), c.kills("memory.events") > 0
		u.PeakMemoryBytes = Keyed(c.Memory, "memory.peak", "")
		u.CPU = scaled(Keyed(c.CPU, "cpu.stat", "usage_usec"), time.Microsecond)

		return u
	}

	u.OOMKills = int(Keyed(c.Kills, "memory.oom_control", "oom_kill"))
	if own := c.kills("memory.oom_control"); own > 0 {
		u.OOMKills, u.Killed = u.OOMKills+own, true
	}

	u.PeakMemoryBytes = Keyed(c.Memory, "memory.max_usage_in_bytes", "")
	u.CPU = scaled(Keyed(c.CPU, "cpuacct.usage", ""), time.Nanosecond)

	return u
}

// kills are those of sandboxd.
func (c Counters) kills(file string) int {
	if c.Sandboxd == "" {
		return 0
	}

	return int(Keyed(c.Sandboxd, file, "oom_kill"))
}

// Keyed reads the number behind key in a file of "key number" lines, or the file's only number where key is
// "". It is -1 where there is none.
func Keyed(folder, file, key string) int64 {
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
