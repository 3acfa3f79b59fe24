package prestart

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// numberOffset is the offset of the call's number in the kernel's struct seccomp_data.
const numberOffset = 0

// refuseClone3 adds a filter for this thread and its programs and children: clone3 is ENOSYS, so that the C
// library falls back to clone, whose flags a filter can read. The sandbox's filter refuses calls by another
// architecture's numbers.
func refuseClone3() error {
	const jumpIfEqual, load, ret = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_RET | unix.BPF_K

	filter := [...]unix.SockFilter{
		{Code: load, K: numberOffset},
		{Code: jumpIfEqual, Jf: 1, K: unix.SYS_CLONE3},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}

	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}

	return nil
}
