// Command tryout runs inside a sandbox under test and prints, one a line, what the kernel says to system calls that no sandbox
// needs: the error number, or "open".
package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	raw := func(nr uintptr, args ...uintptr) error {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 {
			return errno
		}
		return nil
	}
	text, _ := unix.BytePtrFromString("x")
	p := uintptr(unsafe.Pointer(text))
	limits := uintptr(unsafe.Pointer(&unix.Rlimit{}))
	const upper = 1 << 32
	for name, err := range map[string]error{
		"unshare":           raw(unix.SYS_UNSHARE, unix.CLONE_NEWNS),
		"unshare user":      raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		"clone user":        raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)),
		"clone3":            raw(unix.SYS_CLONE3, 0, 0),
		"mount":             raw(unix.SYS_MOUNT, p, p, p, 0, 0),
		"setns":             raw(unix.SYS_SETNS, 0, 0),
		"bpf":               raw(unix.SYS_BPF, 0, 0, 0),
		"keyctl":            raw(unix.SYS_KEYCTL, 0, 0, 0, 0, 0),
		"add_key":           raw(unix.SYS_ADD_KEY, p, p, p, 1, 0),
		"userfaultfd":       raw(unix.SYS_USERFAULTFD, 0),
		"perf_event_open":   raw(unix.SYS_PERF_EVENT_OPEN, p, 0, 0, 0, 0),
		"io_uring_setup":    raw(unix.SYS_IO_URING_SETUP, 1, p),
		"io_setup":          raw(unix.SYS_IO_SETUP, 1, p),
		"open_by_handle_at": raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, p, 0),
		"kexec_load":        raw(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		"fsopen":            raw(unix.SYS_FSOPEN, p, 0),
		"init_module":       raw(unix.SYS_INIT_MODULE, p, 0, p),
		"vsock":             raw(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"alg":               raw(unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"packet":            raw(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0),
		"vsock upper bit":   raw(unix.SYS_SOCKET, upper|unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"vsock upper clone": raw(unix.SYS_SOCKET, unix.SYS_CLONE<<32|unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"x32":               raw(0x40000000|unix.SYS_GETPID, 0),
		"i386":              i386(20), // getpid
		"ptrace pid 1":      raw(unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1, 0, 0),
		"read memory of 1":  readMemory(1),
		"prlimit of 1":      raw(unix.SYS_PRLIMIT64, 1, unix.RLIMIT_AS, limits, 0),
		"prlimit upper bit": raw(unix.SYS_PRLIMIT64, upper, unix.RLIMIT_AS, limits, 0),
		"trace exits":       trace(unix.PTRACE_SETOPTIONS, unix.PTRACE_O_TRACEEXIT),
		"trace exits, old":  trace(oldSetOptions, unix.PTRACE_O_TRACEEXIT|unix.PTRACE_O_TRACEFORK),
		"trace exits, upon": trace(unix.PTRACE_SEIZE, unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACEEXIT),
		"trace forks":       trace(unix.PTRACE_SETOPTIONS, unix.PTRACE_O_TRACEFORK),
		"trace forks, old":  trace(oldSetOptions, unix.PTRACE_O_TRACEFORK),
		"trace forks, upon": trace(unix.PTRACE_SEIZE, unix.PTRACE_O_TRACEFORK|unix.PTRACE_O_EXITKILL),
		"trace on":          trace(unix.PTRACE_CONT, unix.PTRACE_O_TRACEEXIT),
		"trace, registers":  trace(unix.PTRACE_GETREGSET, 0x7f12_3456_7fff),
		"trace, system":     trace(unix.PTRACE_GET_SYSCALL_INFO, 0x7f12_3456_7fff),
		"trace, 32 bits":    trace(unix.PTRACE_CONT|upper, unix.PTRACE_O_TRACEEXIT),
		"own prlimit":       raw(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, limits, 0),
		"inet":              raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0),
		"unix":              raw(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0),
	} {
		said := "open"
		if errno, ok := err.(unix.Errno); ok {
			said = unix.ErrnoName(errno)
		}
		fmt.Fprintf(os.Stdout, "%s: %s\n", name, said)
	}
}

// oldSetOptions is another number of PTRACE_SETOPTIONS.
const oldSetOptions = 21

// trace makes a request about a process that does not exist: ESRCH says that the kernel took it.
func trace(request, data uintptr) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, request, 1<<22-1, 0, data, 0, 0)
	return errno
}

// readMemory reads where a Go program's text lies.
func readMemory(pid int) error {
	var b [8]byte
	_, err := unix.ProcessVMReadv(pid,
		[]unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}, []unix.RemoteIovec{{Base: 0x400000, Len: len(b)}}, 0)
	return err
}
