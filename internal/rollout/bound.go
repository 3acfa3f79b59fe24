package rollout

import (
	"math"
	"reflect"
	"time"
)

// Bound is one of Limits, as a client names it.
type Bound struct {
	// path of the argument, such as "limits.call_s"
	Name string

	// description of the argument
	About string
	field int
}

// Bounds are all of Limits, in the order of its fields.
func Bounds() []Bound {
	t := reflect.TypeFor[Limits]()

	all := make([]Bound, t.NumField())
	for i := range all {
		tag := t.Field(i).Tag
		all[i] = Bound{Name: tag.Get("arg"), About: tag.Get("jsonschema"), field: i}
	}

	return all
}

// Of is the bound's value in l: seconds, a count, or US dollars.
func (b Bound) Of(l Limits) float64 {
	switch v := reflect.ValueOf(l).Field(b.field).Interface().(type) {
	case time.Duration:
		return v.Seconds()
	case float64:
		return v
	default:
		return float64(reflect.ValueOf(v).Int())
	}
}

// Set puts the bound into l. Fractions of a count are dropped.
func (b Bound) Set(l *Limits, v float64) {
	switch to := reflect.ValueOf(l).Elem().Field(b.field); {
	case b.Seconds():
		to.SetInt(int64(v * float64(time.Second)))
	case to.CanFloat():
		to.SetFloat(v)
	default:
		to.SetInt(int64(v))
	}
}

// Seconds reports whether the bound is a duration.
func (b Bound) Seconds() bool { return b.kind() == reflect.TypeFor[time.Duration]() }

// IsCount reports whether the bound is a count.
func (b Bound) IsCount() bool { return !b.Seconds() && b.kind().Kind() != reflect.Float64 }

func (b Bound) kind() reflect.Type { return reflect.TypeFor[Limits]().Field(b.field).Type }

// MaxBound is the longest duration of a bound.
const MaxBound = 100 * 24 * time.Hour

const (
	// maxAttempts keeps a workflow's history below Temporal's limit: each attempt adds some hundred events.
	maxAttempts = 100
	// maxRollout has room for all attempts with every part at MaxBound, and does not overflow a time.Duration.
	maxRollout = 6 * maxAttempts * MaxBound
)

// Max is the largest value of the bound; infinite where it has none.
func (b Bound) Max() float64 {
	switch {
	case b.Name == "limits.attempts":
		return maxAttempts
	case b.Name == "limits.rollout_s":
		return maxRollout.Seconds()
	case b.Seconds():
		return MaxBound.Seconds()
	default:
		return math.Inf(1)
	}
}
