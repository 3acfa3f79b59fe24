package tools

import (
	"reflect"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// purposeAuto is the default purpose in the arguments.
const purposeAuto = "auto"

// pin sets the purpose and the sampling parameters of the model from the arguments. Parameters may be at
// top level or in an object: eval_sampling for evaluations, else sampling. A task for both purposes has both.
func pin(m *rollout.Model, mode rollout.Mode, a RolloutArgs) error {
	if m.Purpose = rollout.Purpose(a.Purpose); a.Purpose == purposeAuto {
		m.Purpose = rollout.PurposeAuto
	}

	field, object := "sampling", a.Pinned
	switch evaluates := m.Purpose == rollout.PurposeEval; {
	case evaluates && a.Pinned != nil && a.EvalPinned == nil:
		return fault.Field("sampling", "is for training: with purpose %q give eval_sampling", rollout.PurposeEval)
	case m.Purpose == rollout.PurposeTrain && mode == rollout.BlackBox:
		return fault.Field("purpose", "training needs mode %q: %q captures no tokens", rollout.TransparentProxy, mode)
	case evaluates:
		field, object = "eval_sampling", a.EvalPinned
	}

	if mode == rollout.BlackBox && m.Purpose == rollout.PurposeAuto {
		// nothing is captured that could be trained on
		m.Purpose = rollout.PurposeEval
	}

	pinned, err := merged(field, a.Sampling, object)
	if err != nil {
		return err
	}

	if m.Sampling = pinned; pinned == nil && m.Purpose == rollout.PurposeTrain {
		m.Sampling = &rollout.Sampling{}
	}

	if m.Training() {
		m.Sampling = m.Sampling.ForTraining()
	}

	return nil
}

// merged returns the parameters of both places; nil: none. A parameter that is set in both must have the same value.
func merged(field string, top rollout.Sampling, object *rollout.Sampling) (*rollout.Sampling, error) {
	if object != nil {
		to, from := reflect.ValueOf(&top).Elem(), reflect.ValueOf(*object)
		for i := range from.NumField() {
			value := from.Field(i)
			switch {
			case value.IsNil():
			case to.Field(i).IsNil():
				to.Field(i).Set(value)
			case !reflect.DeepEqual(to.Field(i).Interface(), value.Interface()):
				name, _, _ := strings.Cut(from.Type().Field(i).Tag.Get("json"), ",")
				return nil, fault.Field(name, "differs from %s.%s: give one of the two", field, name)
			}
		}
	}

	if reflect.ValueOf(top).IsZero() {
		return nil, nil
	}

	return &top, nil
}
