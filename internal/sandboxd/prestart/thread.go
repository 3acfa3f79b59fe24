package prestart

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// WarmThreads makes the runtime start n threads, which it keeps.
func WarmThreads(n int) {
	var ready, release sync.WaitGroup
	ready.Add(n)
	release.Add(1)

	for range n {
		go func() {
			runtime.LockOSThread()

			defer runtime.UnlockOSThread()

			ready.Done()
			release.Wait()
		}()
	}

	ready.Wait()
	release.Done()
}

// BecomeUser changes the user and the groups of the calling thread, for good. The caller has locked its
// goroutine to the thread, which then calls exec.
//
// The standard library's functions change every thread of the process. They stop all threads and wait for
// each, which takes milliseconds on a busy machine.
func BecomeUser(uid, gid int, groups []int) error {
	// one more, so that it has an address
	list := make([]uint32, len(groups)+1)
	for i, g := range groups {
		list[i] = uint32(g)
	}

	if err := raw(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&list[0])), 0); err != nil {
		return fmt.Errorf("groups: %w", err)
	}

	if err := raw(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); err != nil {
		return fmt.Errorf("group %d: %w", gid, err)
	}

	if err := raw(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); err != nil {
		return fmt.Errorf("user %d: %w", uid, err)
	}

	return nil
}

func raw(call, a, b, c uintptr) error {
	if _, _, errno := unix.RawSyscall(call, a, b, c); errno != 0 {
		return errno
	}

	return nil
}
