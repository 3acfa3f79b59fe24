package rollout

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// attemptOverhead is what a derived Limits.Rollout reserves per attempt for creating the sandbox,
// installing the agent and opening the model channel. The call that is open when the agent's time is up is
// reserved apart.
const attemptOverhead = 2 * time.Minute

// leastHeld is the smallest derived Limits.Held: trainers replace weights and restart engines in less time.
const leastHeld = 30 * time.Minute

// DefaultLimits returns the bounds of a rollout that asks for none. Call, FirstCall, Quiet, Held and
// Rollout are left zero: they depend on others, so that a caller who only changes Agent still gets a set
// that nests (see Filled).
func DefaultLimits() Limits {
	return Limits{
		Setup:    5 * time.Minute,
		Agent:    10 * time.Minute,
		Verifier: 2 * time.Minute,
		Collect:  time.Minute,
		Queue:    24 * time.Hour,
		Attempts: 3,
	}
}

// Filled returns l with every zero bound set: the fixed ones from DefaultLimits, the others derived so that
// the set nests. Turns and tokens stay zero, which means unbounded. A filled set is returned unchanged.
func (l Limits) Filled() Limits {
	d := DefaultLimits()
	l.Setup = or(l.Setup, d.Setup)
	l.Agent = or(l.Agent, d.Agent)
	l.Verifier = or(l.Verifier, d.Verifier)
	l.Collect = or(l.Collect, d.Collect)

	l.Queue = or(l.Queue, d.Queue)
	if l.Attempts == 0 {
		l.Attempts = d.Attempts
	}

	l.Call = or(l.Call, min(5*time.Minute, l.Agent*4/5))
	l.FirstCall = or(l.FirstCall, time.Minute)
	l.Quiet = or(l.Quiet, min(5*time.Minute, l.Agent))
	l.Held = or(l.Held, max(leastHeld, l.Agent))
	l.Rollout = or(l.Rollout, time.Duration(l.Attempts)*(l.attempt()+l.Call+attemptOverhead)+l.Held)

	return l
}

// Validate reports every invalid bound by the name of the tool's argument. Zero bounds are derived and always fit.
func (l Limits) Validate() error {
	problems := l.outOfRange()
	if len(problems) == 0 {
		problems = l.Filled().misnested()
	}

	if len(problems) == 0 {
		return nil
	}

	field, _, _ := strings.Cut(problems[0], ":")

	return &fault.Error{Kind: fault.Invalid, Field: field, Msg: strings.Join(problems, "; ")}
}

// outOfRange lists the bounds that are negative, not finite or above their maximum.
func (l Limits) outOfRange() []string {
	var problems []string

	for _, b := range Bounds() {
		switch v, most := b.Of(l), b.Max(); {
		case !(v >= 0) || math.IsInf(v, 0):
			problems = append(problems, fmt.Sprintf("%s: must be 0 or more, got %g", b.Name, v))
		case v > most:
			problems = append(problems, fmt.Sprintf("%s: must be at most %g, got %g", b.Name, most, v))
		}
	}

	return problems
}

// misnested lists the bounds of a filled set that do not nest.
func (l Limits) misnested() []string {
	var problems []string
	if l.Call >= l.Agent {
		problems = append(
			problems,
			fmt.Sprintf("limits.call_s: must be less than agent_timeout_s (%s), got %s", l.Agent, l.Call),
		)
	}

	if l.Quiet > l.Agent {
		problems = append(
			problems,
			fmt.Sprintf("limits.quiet_s: must be at most agent_timeout_s (%s), got %s", l.Agent, l.Quiet),
		)
	}

	if sum := l.attempt(); sum > l.Rollout {
		problems = append(
			problems,
			fmt.Sprintf(
				"limits.rollout_s: must be at least one attempt (setup %s + agent_timeout_s %s + verifier %s + collect %s = %s), got %s",
				l.Setup,
				l.Agent,
				l.Verifier,
				l.Collect,
				sum,
				l.Rollout,
			),
		)
	}

	return problems
}

// attempt is how long one attempt may take, without the time that the infrastructure needs.
func (l Limits) attempt() time.Duration { return l.Setup + l.Agent + l.Verifier + l.Collect }

func or(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}

	return d
}
