package process

import (
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// childThreads is an upper bound of package prestart's threads.
const childThreads = 16

// hasRoom reports whether package prestart may be forked into a version 2 cgroup; always for one without a limit.
func hasRoom(cgroup *os.File) bool {
	return pids(cgroup, "pids.max", math.MaxInt)-pids(cgroup, "pids.current", 0) >= childThreads
}

// pids reads a number from a file of the cgroup.
func pids(cgroup *os.File, name string, otherwise int) int {
	fd, err := unix.Openat(int(cgroup.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return otherwise
	}

	f := os.NewFile(uintptr(fd), name)
	defer f.Close()

	data, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return otherwise
	}

	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	// "max"
	if err != nil {
		return otherwise
	}

	return n
}
