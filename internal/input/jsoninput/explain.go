package jsoninput

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// ExplainError returns an error of a decoder as a fault.Invalid about the wrong member, or about whole, the
// name of the text. nil stays nil.
func ExplainError(whole string, err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong):
		return fault.Field(whole, "%s", strings.TrimPrefix(err.Error(), "json: "))
	case wrong.Field != "":
		whole = wrong.Field
	}

	return fault.Field(whole, "must be %s, got %s", kindName(wrong.Type.Kind()), wrong.Value)
}

// kindName describes the JSON values that decode to a Go value of the kind.
func kindName(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}
