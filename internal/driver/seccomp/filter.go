// Package seccomp builds the system call filter of a sandbox.
package seccomp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	profile "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Compile compiles the container engines' default profile, for a process without capabilities, into the BPF
// program that bwrap loads. It is an allow-list: every other call, and every call by another architecture's
// numbers, is EPERM.
//
// clone3 also allows that call, by which sandboxd forks into a cgroup. Package prestart forbids it to all other
// processes.
func Compile(clone3 bool) ([]byte, error) {
	noCaps := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}

	p, err := profile.GetDefaultProfile(noCaps)
	if err != nil {
		return nil, err
	}

	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}

	calls := append(notOwn(p.Syscalls), Rules()...)
	if clone3 {
		// the last rule of a call counts
		calls = append(calls, specs.LinuxSyscall{Names: []string{"clone3"}, Action: specs.ActAllow})
	}

	rules, err := rulesOf(calls, machine)
	if err != nil {
		return nil, err
	}

	raw, err := bpf.Assemble(assemble(rules, machine))
	if err != nil {
		return nil, err
	}
	// the layout of the kernel's struct sock_filter
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, raw); err != nil {
		return nil, err
	}

	return b.Bytes(), nil
}

// notOwn returns the rules without the calls of Own.
func notOwn(rules []specs.LinuxSyscall) []specs.LinuxSyscall {
	list := slices.Clone(rules)
	for i := range list {
		list[i].Names = slices.DeleteFunc(slices.Clone(list[i].Names), HasRules)
	}

	return list
}

// rule is the rule for one system call.
type rule struct {
	number uint32
	// result is the filter's result if the arguments do not matter, or if none of allowed matches.
	result uint32

	// each set of conditions allows the call
	allowed [][]specs.LinuxSeccompArg
}

// rulesOf groups the profile by system call, without calls that this architecture does not have.
func rulesOf(calls []specs.LinuxSyscall, machine *arch.Info) ([]rule, error) {
	byNumber := map[uint32]int{}

	var rules []rule

	for _, call := range calls {
		for _, name := range call.Names {
			n, ok := machine.SyscallNames[name]
			if !ok {
				continue
			}

			number := uint32(n)

			i, known := byNumber[number]
			if !known {
				i = len(rules)
				byNumber[number] = i
				rules = append(rules, rule{number: number, result: errno(uint(unix.EPERM))})
			}

			if err := rules[i].addCall(call); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}

	return rules, nil
}

func (r *rule) addCall(call specs.LinuxSyscall) error {
	switch {
	case call.Action == specs.ActAllow && len(call.Args) > 0:
		for _, a := range call.Args {
			if a.Op != specs.OpEqualTo && a.Op != specs.OpMaskedEqual {
				return fmt.Errorf("unknown condition %s", a.Op)
			}
		}

		r.allowed = append(r.allowed, call.Args)
	case call.Action == specs.ActAllow:
		r.result = unix.SECCOMP_RET_ALLOW
	case call.Action == specs.ActErrno && len(call.Args) == 0 && call.ErrnoRet != nil:
		r.result = errno(*call.ErrnoRet)
	default:
		return fmt.Errorf("unknown action %s with %d conditions", call.Action, len(call.Args))
	}

	return nil
}

func errno(n uint) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(n)&unix.SECCOMP_RET_DATA }
