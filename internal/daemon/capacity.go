package daemon

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/rolloutd/rolloutd/internal/config"
)

// reserveMiB is the memory left to everything that is not a sandbox.
const reserveMiB = 2048

// capacity is how many agents' sandboxes this host takes on: as configured, or as many as its memory holds.
func capacity(c config.Config) (int, error) {
	if c.Worker.Capacity > 0 {
		return c.Worker.Capacity, nil
	}
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("how much memory there is: %w (set worker.capacity)", err)
	}
	defer f.Close()
	total, err := memTotalMiB(f)
	if err != nil {
		return 0, err
	}
	return fits(total, c.Sandbox.MemoryMiB), nil
}

// fits is at least one: a small machine runs one sandbox and may swap, rather than wait for ever.
func fits(totalMiB, sandboxMiB int) int { return max(1, (totalMiB-reserveMiB)/sandboxMiB) }

// memTotalMiB reads /proc/meminfo.
func memTotalMiB(r io.Reader) (int, error) {
	for in := bufio.NewScanner(r); in.Scan(); {
		var kib int
		if n, err := fmt.Sscanf(in.Text(), "MemTotal: %d kB", &kib); err == nil && n == 1 {
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("how much memory there is: /proc/meminfo does not tell (set worker.capacity)")
}
