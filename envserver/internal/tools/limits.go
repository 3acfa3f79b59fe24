package tools

import (
	"math"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// inLimits is the prefix of the arguments with bounds, except agent_timeout_s.
const inLimits = "limits."

// limits returns the server's defaults with the caller's changes, and derives the rest, so that the limits
// nest also for a client that sets only agent_timeout_s.
func (t *Table) limits(a RolloutArgs) rollout.Limits {
	l := t.o.Limits

	l.Agent = seconds(a.AgentTimeoutS)
	for _, inner := range []*time.Duration{&l.Call, &l.FirstCall, &l.Quiet} {
		if *inner >= l.Agent {
			// the default is for longer agents: derive this one
			*inner = 0
		}
	}

	for _, b := range rollout.Bounds() {
		if v, asked := a.Limits[strings.TrimPrefix(b.Name, inLimits)]; asked {
			b.Set(&l, v)
		}
	}

	return l.Filled()
}

// limitsSchema describes the argument limits.
func limitsSchema(s *jsonschema.Schema) {
	s.Type, s.Types = "", []string{"null", "object"}
	s.AdditionalProperties, s.Properties = &jsonschema.Schema{
		Not: &jsonschema.Schema{},
	}, map[string]*jsonschema.Schema{}

	for _, b := range rollout.Bounds() {
		name, isLimit := strings.CutPrefix(b.Name, inLimits)
		if !isLimit {
			continue
		}

		p := &jsonschema.Schema{Types: []string{"null", "number"}, Description: b.About, Minimum: jsonschema.Ptr(0.0)}
		if b.IsCount() {
			p.Types[1] = "integer"
		}

		if most := b.Max(); !math.IsInf(most, 0) {
			p.Maximum = &most
		}

		s.Properties[name], s.PropertyOrder = p, append(s.PropertyOrder, name)
	}
}

func set[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
