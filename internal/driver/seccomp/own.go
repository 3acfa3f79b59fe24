package seccomp

import (
	"math"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Rules returns the rules that replace those of the engines' profile for the same system calls, on every backend.
//
// They are exact lists, which cannot be bypassed. The profile compares a whole register, but the kernel
// uses only its lower half for most arguments: an argument with an upper bit set would pass a "greater
// than".
func Rules() []specs.LinuxSyscall {
	// Limits of other processes: a process of sandboxd's user could take memory and descriptors from sandboxd.
	list := []specs.LinuxSyscall{allow("prlimit64", equal(0, 0))}
	for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		list = append(list, allow("socket", equal(0, family)))
	}
	// The whole kernel has aio-max-nr (65,536) requests of asynchronous I/O, which one sandbox could take
	// from all others. Programs that get ENOSYS do without, as on a kernel that is built so; those that get
	// EAGAIN, as some databases, do not start.
	noSuchCall := uint(unix.ENOSYS)
	list = append(list, specs.LinuxSyscall{Names: []string{"io_setup"}, Action: specs.ActErrno, ErrnoRet: &noSuchCall})

	return append(list, traceRules()...)
}

// HasRules reports whether Rules has rules for the call.
func HasRules(call string) bool {
	return slices.ContainsFunc(Rules(), func(r specs.LinuxSyscall) bool { return slices.Contains(r.Names, call) })
}

// traceRules allow ptrace without PTRACE_O_TRACEEXIT. With that option a process stops in its exit until
// its tracer resumes it, even after SIGKILL. Two processes that trace each other's exits survive SIGKILL
// until the machine reboots, and hold their sandbox's memory.
//
// The option is a bit of the last argument of PTRACE_SETOPTIONS (also by its old number, 21) and
// PTRACE_SEIZE. Other requests use that argument as an address, a signal or a word of memory. A filter has
// no "and not" for one argument, so all other requests are listed, as blocks of numbers that differ only in
// their low bits. Debuggers and leak sanitizers do not set the option. strace always does, so it does not
// work in a sandbox. Refusing to attach would allow strace, but break every program with a leak sanitizer.
func traceRules() []specs.LinuxSyscall {
	const request, data = 0, 3

	list := []specs.LinuxSyscall{allow("ptrace", masked(data, unix.PTRACE_O_TRACEEXIT, 0))}
	for _, block := range []struct{ first, size uint64 }{
		{0, 16}, {16, 4}, {20, 1}, {22, 2}, {24, 8}, {32, 32}, // all below 64 except 21
		// all of 0x4200 to 0x421f except 0x4200 and 0x4206
		{0x4201, 1}, {0x4202, 2}, {0x4204, 2}, {0x4207, 1}, {0x4208, 8}, {0x4210, 16},
	} {
		list = append(list, allow("ptrace", masked(request, math.MaxUint64-(block.size-1), block.first)))
	}

	return list
}

// allow allows the call if the condition holds.
func allow(call string, condition specs.LinuxSeccompArg) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: []string{call}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{condition}}
}

// equal holds if the argument has the value.
func equal(argument uint, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: argument, Value: value, Op: specs.OpEqualTo}
}

// masked holds if the bits of the argument in mask equal the value.
func masked(argument uint, mask, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: argument, Value: mask, ValueTwo: value, Op: specs.OpMaskedEqual}
}
