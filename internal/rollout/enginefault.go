package rollout

import (
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// EngineFault is the word with which a flaw of a turn begins that is, or may be, a fault of the engine. A colon and a
// sentence follow.
type EngineFault string

// Faults that begin with "engine_" are provably the engine's. The others a policy can cause, too.
const (
	FaultCallLost EngineFault = "engine_call_lost"
	FaultCallCut  EngineFault = "engine_call_cut"
	FaultFrozen   EngineFault = "engine_frozen"

	FaultMarkup        EngineFault = "call_markup"
	FaultUnnamed       EngineFault = "call_unnamed"
	FaultCut           EngineFault = "call_cut"
	FaultStalled       EngineFault = "reply_stalled"
	FaultParserRefused EngineFault = "parser_refused"
)

// EngineFaults lists the words.
func EngineFaults() []EngineFault {
	return []EngineFault{
		FaultCallLost, FaultCallCut, FaultFrozen, FaultMarkup, FaultUnnamed, FaultCut,
		FaultStalled, FaultParserRefused,
	}
}

// EngineFaultOf returns the fault that a flaw is about; "": it is about the capture.
func EngineFaultOf(flaw string) EngineFault {
	word, _, _ := strings.Cut(flaw, ":")
	if slices.Contains(EngineFaults(), EngineFault(word)) {
		return EngineFault(word)
	}

	return ""
}

// OnEngineFault says what happens to a reply that has a fault which is provably the engine's.
type OnEngineFault string

const (
	// FaultKeep: the fault is recorded.
	FaultKeep OnEngineFault = "keep"
	// FaultMask: the turn is not trained on.
	FaultMask OnEngineFault = "mask"
	// FaultReplace: the agent does not get the reply, and the call is made again.
	FaultReplace OnEngineFault = "replace"
)

// Validate refuses other words; "" is none.
func (o OnEngineFault) Validate() error {
	if o != "" && o != FaultKeep && o != FaultMask && o != FaultReplace {
		return fault.Field("on_engine_fault", "must be %q, %q or %q, got %q", FaultKeep, FaultMask, FaultReplace, o)
	}

	return nil
}
