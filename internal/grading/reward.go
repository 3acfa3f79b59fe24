package grading

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/text"
)

// maxRewardFile is more than any number takes.
const maxRewardFile = 4096

// evidence is what the verifier left besides the commands' exit codes.
type evidence struct {
	file     []byte // the reward file
	fileErr  error  // why it could not be read: it is not there, or is no regular file of sensible size
	timedOut string // what the verifier's time did not suffice for; "": it ended by itself
	budget   time.Duration
}

// decide makes the verdict. The reward file wins where there is one, else the share of commands that passed counts. Anything
// short of a finite number is no verdict: the original protocol then had reward null and left the outcome as it was; we say
// verifier_failed, because "completed without a reward" would look like a task that has no verifier.
func (r *Record) decide(e evidence) {
	reward, problem := r.judge(e)
	if problem != "" {
		r.Error = problem
		return
	}
	r.Reward = &reward
}

func (r *Record) judge(e evidence) (reward float64, problem string) {
	switch {
	case e.timedOut != "":
		return 0, fmt.Sprintf("%s did not end within the verifier's %s", e.timedOut, e.budget)
	case e.fileErr == nil:
		return parseReward(string(e.file))
	case !fault.Is(e.fileErr, fault.NotFound):
		return 0, "the reward file: " + e.fileErr.Error()
	case len(r.Commands) > 0:
		return r.passed(), ""
	default:
		return 0, fmt.Sprintf("the test script (exit code %d) wrote no reward file", r.Script.ExitCode)
	}
}

func parseReward(written string) (float64, string) {
	written = strings.TrimSpace(written)
	reward, err := strconv.ParseFloat(written, 64)
	if err != nil || math.IsNaN(reward) || math.IsInf(reward, 0) {
		return 0, fmt.Sprintf("the reward file holds %q, not a finite number", text.Head(strings.ToValidUTF8(written, "?"), 80))
	}
	return reward, ""
}

// passed is the share of commands that ended with exit code 0.
func (r *Record) passed() float64 {
	n := 0
	for _, c := range r.Commands {
		if c.ExitCode == 0 {
			n++
		}
	}
	return float64(n) / float64(len(r.Commands))
}
