package seccomp

import (
	"math"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in the kernel's struct seccomp_data, and the bit of numbers of the x32 ABI.
const (
	numberOffset = 0
	archOffset   = 4
	argsOffset   = 16
	x32Bit       = 0x4000_0000
)

// assemble returns the filter. Each system call is decided in a block of its own, which always returns, so
// that an argument loaded there cannot be taken for a call's number later.
func assemble(rules []rule, machine *arch.Info) []bpf.Instruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: archOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(machine.ID), SkipTrue: 1},
		ret(errno(uint(unix.EPERM))),
		bpf.LoadAbsolute{Off: numberOffset, Size: 4},
	}
	if machine.ID == arch.X86_64.ID {
		program = append(program,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32Bit, SkipFalse: 1},
			ret(errno(uint(unix.ENOSYS))),
		)
	}

	for _, r := range rules {
		block := r.block()
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: r.number, SkipTrue: uint8(len(block))})
		program = append(program, block...)
	}

	return append(program, ret(errno(uint(unix.EPERM))))
}

func ret(result uint32) bpf.Instruction { return bpf.RetConstant{Val: result} }

// block decides about the call after its number has matched.
func (r rule) block() []bpf.Instruction {
	var block []bpf.Instruction

	if r.result != unix.SECCOMP_RET_ALLOW {
		for _, conditions := range r.allowed {
			block = append(block, allowIf(conditions)...)
		}
	}

	return append(block, ret(r.result))
}

// allowIf allows the call if all conditions hold, and else falls through.
func allowIf(conditions []specs.LinuxSeccompArg) []bpf.Instruction {
	const perCondition = 6

	var block []bpf.Instruction

	left := len(conditions)*perCondition + 1
	for _, c := range conditions {
		for _, half := range halves(c) {
			left -= perCondition / 2
			block = append(block,
				bpf.LoadAbsolute{Off: half.offset, Size: 4},
				bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: half.mask},
				bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: half.value, SkipTrue: uint8(left)})
		}
	}

	return append(block, ret(unix.SECCOMP_RET_ALLOW))
}

// half tests one 32-bit word: its bits in mask must equal value.
type half struct{ offset, mask, value uint32 }

// halves splits the test of an argument into its two 32-bit words; every supported architecture is little-endian.
func halves(c specs.LinuxSeccompArg) [2]half {
	mask, value := uint64(math.MaxUint64), c.Value
	if c.Op == specs.OpMaskedEqual {
		mask, value = c.Value, c.ValueTwo
	}

	low := argsOffset + 8*uint32(c.Index)

	return [2]half{{low, uint32(mask), uint32(value)}, {low + 4, uint32(mask >> 32), uint32(value >> 32)}}
}
