package docker

import (
	"encoding/json"
	"slices"

	profile "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// filterProfile is the engine's default system call filter, made narrower: the families of sockets are those that a sandbox needs, processes
// set their own limits alone, and there are no system calls by the numbers of another architecture, which escape such rules. It is given to every
// container, because a daemon may be older than the profile, or configured without one. With pivot the first process may also change the root; the
// processes of such a sandbox have a narrower filter in addition.
func filterProfile(pivot bool) (string, error) {
	p := profile.DefaultProfile()
	for i := range p.ArchMap {
		p.ArchMap[i].SubArches = nil
	}
	own := ownRules()
	for _, rule := range p.Syscalls {
		rule.Names = slices.DeleteFunc(slices.Clone(rule.Names), func(name string) bool { return own[name] != nil })
	}
	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(rule *profile.Syscall) bool { return len(rule.Names) == 0 })
	for name, values := range own {
		for _, value := range values {
			p.Syscalls = append(p.Syscalls, allowEqual(name, value))
		}
	}
	if pivot {
		p.Syscalls = append(p.Syscalls, &profile.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{"pivot_root"}, Action: specs.ActAllow}})
	}
	data, err := json.Marshal(p)
	return string(data), err
}

// ownRules are the values of the first argument with which a system call is allowed.
func ownRules() map[string][]uint64 {
	return map[string][]uint64{
		"prlimit64": {0},
		"socket":    {unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK},
	}
}

func allowEqual(name string, value uint64) *profile.Syscall {
	return &profile.Syscall{LinuxSyscall: specs.LinuxSyscall{
		Names: []string{name}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{{Index: 0, Value: value, Op: specs.OpEqualTo}},
	}}
}
