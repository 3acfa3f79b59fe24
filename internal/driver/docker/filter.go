package docker

import (
	"encoding/json"
	"slices"

	profile "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rolloutd/rolloutd/internal/driver/seccomp"
)

// filterProfile returns a stricter version of the engine's default system call filter: it allows only the
// socket families that a sandbox needs, lets processes set only their own limits, forbids tracing exits,
// and blocks calls by the numbers of another architecture, which would bypass such rules. Every container
// gets it, because a daemon may be older than the profile, or configured without one. With pivot the first
// process may also change the root; the processes of such a sandbox have a stricter filter in addition.
func filterProfile(pivot bool) (string, error) {
	p := profile.DefaultProfile()
	for i := range p.ArchMap {
		p.ArchMap[i].SubArches = nil
	}

	for _, rule := range p.Syscalls {
		rule.Names = slices.DeleteFunc(slices.Clone(rule.Names), seccomp.HasRules)
	}

	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(rule *profile.Syscall) bool { return len(rule.Names) == 0 })
	for _, rule := range seccomp.Rules() {
		p.Syscalls = append(p.Syscalls, &profile.Syscall{LinuxSyscall: rule})
	}

	if pivot {
		p.Syscalls = append(p.Syscalls, &profile.Syscall{LinuxSyscall: specs.LinuxSyscall{
			Names:  []string{"pivot_root"},
			Action: specs.ActAllow,
		}})
	}

	data, err := json.Marshal(p)

	return string(data), err
}
