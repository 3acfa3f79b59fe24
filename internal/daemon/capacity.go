package daemon

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// reserveMiB is the memory reserved for everything but sandboxes.
const reserveMiB = 2048

// hostMemoryMiB is the memory of this machine.
func hostMemoryMiB() (int, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the host's memory: %w (set worker.capacity)", err)
	}
	defer f.Close()
	return memTotalMiB(f)
}

// fits returns how many sandboxes fit into the memory, at least one: a small machine may swap.
func fits(totalMiB, sandboxMiB int) int { return max(1, (totalMiB-reserveMiB)/sandboxMiB) }

// memTotalMiB reads /proc/meminfo.
func memTotalMiB(r io.Reader) (int, error) {
	for in := bufio.NewScanner(r); in.Scan(); {
		var kib int
		if n, err := fmt.Sscanf(in.Text(), "MemTotal: %d kB", &kib); err == nil && n == 1 {
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("read the host's memory: no MemTotal in /proc/meminfo (set worker.capacity)")
}
