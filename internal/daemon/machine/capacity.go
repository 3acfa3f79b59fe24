package machine

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// ReserveMiB is the memory reserved for everything but sandboxes.
const ReserveMiB = 2048

// MemoryMiB is the memory of this machine.
func MemoryMiB() (int, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the host's memory: %w (set worker.capacity)", err)
	}
	defer f.Close()

	return MemTotalMiB(f)
}

// Fits returns how many sandboxes fit into the memory, at least one: a small machine may swap.
func Fits(totalMiB, sandboxMiB int) int { return max(1, (totalMiB-ReserveMiB)/sandboxMiB) }

// MemTotalMiB reads /proc/meminfo.
func MemTotalMiB(r io.Reader) (int, error) {
	for in := bufio.NewScanner(r); in.Scan(); {
		var kib int
		if n, err := fmt.Sscanf(in.Text(), "MemTotal: %d kB", &kib); err == nil && n == 1 {
			return kib / 1024, nil
		}
	}

	return 0, fmt.Errorf("read the host's memory: no MemTotal in /proc/meminfo (set worker.capacity)")
}
