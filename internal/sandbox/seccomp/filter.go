// Package seccomp makes the system call filter of a sandbox.
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

// Compile turns the container engines' default profile, for a process without capabilities, into the BPF program that
// bwrap loads. It is an allow-list: what it does not name, and every call by another architecture's numbers, is EPERM.
//
// With clone3 that call is allowed, by which sandboxd forks into a cgroup. Package child takes it from all other processes.
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
	calls := append(notOwn(p.Syscalls), Own()...)
	if clone3 {
		calls = append(calls, specs.LinuxSyscall{Names: []string{"clone3"}, Action: specs.ActAllow}) // the last rule of a call holds
	}
	rules, err := rulesOf(calls, machine)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(assemble(rules, machine))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer // laid out as the kernel's struct sock_filter
	if err := binary.Write(&b, binary.NativeEndian, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// notOwn are the rules without the calls that our own rules are about.
func notOwn(rules []specs.LinuxSyscall) []specs.LinuxSyscall {
	list := slices.Clone(rules)
	for i := range list {
		list[i].Names = slices.DeleteFunc(slices.Clone(list[i].Names), IsOwn)
	}
	return list
}

// rule is all that is said about one system call.
type rule struct {
	number uint32
	// result is what the filter returns when the call's arguments do not matter, or when none of allowed matches.
	result  uint32
	allowed [][]specs.LinuxSeccompArg // each one a set of conditions that together allow the call
}

// rulesOf gathers the profile by system call, without those that this machine's architecture has no number for.
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
			if err := rules[i].add(call); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return rules, nil
}

func (r *rule) add(call specs.LinuxSyscall) error {
	switch {
	case call.Action == specs.ActAllow && len(call.Args) > 0:
		for _, a := range call.Args {
			if a.Op != specs.OpEqualTo && a.Op != specs.OpMaskedEqual {
				return fmt.Errorf("condition %s is not known", a.Op)
			}
		}
		r.allowed = append(r.allowed, call.Args)
	case call.Action == specs.ActAllow:
		r.result = unix.SECCOMP_RET_ALLOW
	case call.Action == specs.ActErrno && len(call.Args) == 0 && call.ErrnoRet != nil:
		r.result = errno(*call.ErrnoRet)
	default:
		return fmt.Errorf("action %s with %d conditions is not known", call.Action, len(call.Args))
	}
	return nil
}

func errno(n uint) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(n)&unix.SECCOMP_RET_DATA }
