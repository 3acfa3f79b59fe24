package nested

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/cgroup"
	"github.com/rolloutd/rolloutd/internal/driver/usage"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	cgroupName = "sandbox"
	// machineReserve is memory of the machine that the sandbox's processes do not get, in MiB: for the
	// kernel, the provider's daemon and sandboxd. Without it the machine would run out of memory before the
	// sandbox, and the kernel could kill any process.
	machineReserve = 128
)

// inherited are open files for the inner step, from descriptor first on.
type inherited struct {
	first int
	files []*os.File
}

// openFile opens a file, and returns its descriptor in the inner step.
func (i *inherited) openFile(path string, flag int) (int, error) {
	f, err := os.OpenFile(path, flag|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}

	i.files = append(i.files, f)

	return i.first + len(i.files) - 1, nil
}

// addCounters opens the folders of the counters, which sandboxd cannot open by name, and replaces the names
// by descriptors.
func (i *inherited) addCounters(c *usage.Counters) error {
	for _, folder := range []*string{&c.Kills, &c.Memory, &c.PIDs, &c.CPU} {
		fd, err := i.openFile(*folder, os.O_RDONLY)
		if err != nil {
			return err
		}

		*folder = fmt.Sprintf("/proc/self/fd/%d", fd)
	}

	return nil
}

// bound creates cgroups with the sandbox's limits for its processes. The inner step inherits their
// entrances and counters. Without controllers the size of the machine is the only limit, and there are no
// counters.
func bound(c *Config, i *inherited) error {
	h := cgroup.New(cgroupRoot)

	files, err := limited(h, *c)
	if err != nil {
		return err
	}

	var entrances []string

	for _, path := range files {
		fd, err := i.openFile(path, os.O_WRONLY)
		if err != nil {
			return err
		}

		entrances = append(entrances, strconv.Itoa(fd))
	}

	counters := h.Counters(cgroupName)
	// sandboxd, the reader, is in none of the cgroups
	counters.Sandboxd = ""
	if err := i.addCounters(&counters); err != nil {
		return err
	}

	c.Entrances, c.Counters = entrances, counters

	return nil
}

// limited creates the cgroups, and returns the files by which processes enter them.
func limited(h *cgroup.Hierarchy, c Config) ([]string, error) {
	total, err := machineMiB()
	if err != nil {
		return nil, err
	}

	if err := h.Prepare(); err != nil {
		return nil, err
	}

	e, err := h.Create(cgroupName, driver.Spec{
		CPU:       c.CPU,
		MemoryMiB: min(c.MemoryMiB, max(total-machineReserve, total/2)),
		PIDs:      c.PIDs,
	})

	return e.Work, err
}

// machineMiB returns the memory of the machine.
func machineMiB() (int, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer f.Close()

	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == "MemTotal:" {
			kib, err := strconv.Atoi(fields[1])
			return kib >> 10, err
		}
	}

	return 0, errors.New("/proc/meminfo has no MemTotal")
}
