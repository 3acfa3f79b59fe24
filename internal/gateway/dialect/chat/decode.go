package chat

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

// Bounds of a translated request: JSON values, and depth. A request of 200 turns with 100 tools has about
// 20,000 values.
const (
	maxElements = 1 << 18
	maxDepth    = 200
)

// Decode reads a request of an agent within bounds. Its error is a fault.Invalid for the agent.
func Decode(body []byte, into any) error {
	in := json.NewDecoder(jsoninput.NewReader(bytes.NewReader(body), jsoninput.Limits{
		Elements: maxElements,
		Depth:    maxDepth,
	}))
	err := in.Decode(into)

	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fault.Field(kind.Field, "must not be a %s", kind.Value)
	}

	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}

	if err != nil {
		return fault.New(fault.Invalid, "%s", err)
	}

	return nil
}
