package grading

import (
	"fmt"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// failure ends grading with a record instead of an error.
//
// The reward is null only if the cause is provably not the agent's work. If an agent could turn a reward of
// 0 into null, training would lose the negative signal and retry the attempt.
type failure struct {
	why string

	// the verifier is at fault: reward null; else the submission is: reward 0
	verifier bool

	// the submission or the verifier reached a limit of the sandbox
	bound bool

	// the test script failed and wrote no reward
	silent bool
}

func (f *failure) Error() string { return f.why }

func submissionFailed(format string, args ...any) error {
	return &failure{why: fmt.Sprintf(format, args...)}
}

func verifierFailed(format string, args ...any) error {
	return &failure{why: fmt.Sprintf(format, args...), verifier: true}
}

// blameBounds is blame for steps of the verifier alone: the work that lies in the sandbox can take its disk
// and memory, and nothing else from them. So can the verifier's own files.
func blameBounds(err error, what string) error {
	switch fault.KindOf(err) {
	case fault.OutOfDisk, fault.OutOfMemory:
		return &failure{why: fmt.Sprintf("%s: %v", what, err), bound: true}
	default:
		return err
	}
}

// blame converts an error that the agent's work caused into a failure of the submission. It decides by the
// kind: files that cannot be packed, unpacked or read, a full disk, exhausted memory, processes that cannot
// be killed. A lost sandbox, an unreachable host or a failing store has another kind.
func blame(err error, what string) error {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.OutOfDisk, fault.OutOfMemory, fault.Timeout:
		return submissionFailed("%s: %v", what, err)
	default:
		return err
	}
}
