package prestart

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// FirstCommand is the argument that starts the step of the first process of a sandbox; the next argument is the
// descriptor of its Config.
const FirstCommand = "first"

// RunFirst executes the configuration on a descriptor, as the first process of a sandbox without sandboxd. The
// program gets no descriptor beside the three streams. It returns only if that fails.
func RunFirst(args []string) error {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)

	if len(args) != 1 {
		return fmt.Errorf("%s: needs one descriptor, got %d arguments", FirstCommand, len(args))
	}

	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("%s: %w", FirstCommand, err)
	}

	c, err := readConfig(fd)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}

	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}

	if err := become(c.User); err != nil {
		return fmt.Errorf("user: %w", err)
	}

	program, err := find(c)
	if err != nil {
		return err
	}

	return replace(program, c)
}
