package prestart

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unhandled returns the signals that the Go runtime neither handles nor ignores. The kernel drops them for
// a namespace's first process only while it has one thread; otherwise they may reach another thread and end
// the process.
func unhandled() []uintptr { return []uintptr{32, 34} }

// IgnoreUnhandled makes this process, and its programs and children, ignore these signals.
func IgnoreUnhandled() error { return setUnhandled(1) }

// restoreUnhandled undoes IgnoreUnhandled for the program: C libraries use these signals.
func restoreUnhandled() error { return setUnhandled(0) }

// setUnhandled sets the handler of these signals: 0 is the default, 1 ignores them. Flags and mask are
// zero, so only the first word of the kernel's struct sigaction is not zero.
func setUnhandled(handler uintptr) error {
	action := [4]uintptr{handler}
	for _, signal := range unhandled() {
		if _, _, errno := unix.RawSyscall6(
			unix.SYS_RT_SIGACTION,
			signal,
			uintptr(unsafe.Pointer(&action)),
			0,
			8,
			0,
			0,
		); errno != 0 {
			return fmt.Errorf("signal %d: %w", signal, errno)
		}
	}

	return nil
}
