package child

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unhandled are the signals that the Go runtime neither handles nor ignores. The kernel keeps them from the first process of a namespace only while
// that has one thread: where the first thread is in a handler, they reach another one, and end the process.
func unhandled() []uintptr { return []uintptr{32, 34} }

// IgnoreUnhandled makes this process, and all that it becomes, ignore these signals.
func IgnoreUnhandled() error { return setUnhandled(1) }

// restoreUnhandled undoes IgnoreUnhandled for the program: C libraries use the signals themselves.
func restoreUnhandled() error { return setUnhandled(0) }

// setUnhandled sets what is done at these signals: 0 is the default, 1 nothing. Both are without flags and a mask, so only the first word of the
// kernel's struct sigaction is not zero.
func setUnhandled(handler uintptr) error {
	action := [4]uintptr{handler}
	for _, signal := range unhandled() {
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0); errno != 0 {
			return fmt.Errorf("signal %d: %w", signal, errno)
		}
	}
	return nil
}
