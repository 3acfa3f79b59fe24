package searchindex

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Bounds of what is kept of a rollout's versions. Endpoints choose the names.
const (
	maxVersions    = 32
	maxVersionName = 200
)

// course is how a rollout went over time. Its times are Unix microseconds.
type course struct {
	// versions of the weights that its replies named, in the order of their first reply
	Versions []seen `json:"versions,omitempty"`

	// the time in a queue, and with a slot, of each attempt
	Queued  []span `json:"queued,omitempty"`
	Running []span `json:"running,omitempty"`

	// how many training sequences its turns make; 0: none, or not known
	Sequences int `json:"sequences,omitempty"`
}

// seen is a version of the weights, and the start of the first call whose reply named it.
type seen struct {
	Version string `json:"version"`
	At      int64  `json:"at"`
}

// span is a time from its begin to its end.
type span [2]int64

// courseOf reads the phases of a result. An open phase ends with the rollout.
func courseOf(r rollout.Result, end time.Time) (c course) {
	latest := 0 // attempt with a slot

	for _, p := range r.Phases {
		s := span{p.Start.UnixMicro(), end.UnixMicro()}
		if p.End != nil {
			s[1] = p.End.UnixMicro()
		}

		switch {
		case p.Phase == rollout.PhaseDone || s[1] < s[0]:
		case p.Phase == rollout.PhaseQueued:
			c.Queued = append(c.Queued, s)
		case len(c.Running) > 0 && p.Attempt == latest:
			c.Running[len(c.Running)-1][1] = s[1]
		default:
			c.Running, latest = append(c.Running, s), p.Attempt
		}
	}

	return c
}

// addTurn adds the versions of a reply.
func (c *course) addTurn(t *rollout.Turn) {
	if t.Kind == rollout.KindForeign {
		return
	}

	at := int64(t.Timestamp * float64(time.Second/time.Microsecond))
	if len(t.WeightVersions) == 0 {
		c.addVersion(t.ModelVersion, at)
	}

	for _, s := range t.WeightVersions {
		c.addVersion(s.Version, at)
	}
}

func (c *course) addVersion(name string, at int64) {
	name = text.Head(name, maxVersionName)
	if name == "" || len(c.Versions) == maxVersions {
		return
	}

	for _, v := range c.Versions {
		if v.Version == name {
			return
		}
	}

	c.Versions = append(c.Versions, seen{name, at})
}

// version is that of the first reply; "": none was named.
func (c *course) version() string {
	if len(c.Versions) == 0 {
		return ""
	}

	return c.Versions[0].Version
}

// sequenceCounter counts the training sequences of a trace.
type sequenceCounter struct {
	builder *sequence.Builder

	// why the sequences are not known
	err error
}

func newSequenceCounter() *sequenceCounter {
	builder, err := sequence.NewBuilder(sequence.Choice{})
	return &sequenceCounter{builder, err}
}

func (c *sequenceCounter) add(t *rollout.Turn) {
	if c.err == nil {
		c.err = c.builder.AddBounded(t)
	}
}

// count is 0 if the number is not known.
func (c *sequenceCounter) count() int {
	if c.err != nil {
		return 0
	}

	return len(c.builder.Trajectory().Sequences)
}
