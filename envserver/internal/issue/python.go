package issue

import (
	"encoding/json"
	"math"
	"strings"
)

// isInt reports whether a decoded number was written as an integer, which has no bounds in Python.
func isInt(v any) bool {
	n, ok := v.(json.Number)
	return ok && !strings.ContainsAny(n.String(), ".eE")
}

// float converts a decoded value to a number as pydantic does.
func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case bool:
		if v {
			return 1, true
		}

		return 0, true
	case string:
		f, err := json.Number(strings.TrimSpace(v)).Float64()
		return f, err == nil
	default:
		return 0, false
	}
}

// integral reports whether a number is whole and fits an int64.
func integral(f float64) bool {
	return f == math.Trunc(f) && math.Abs(f) < 1<<63
}
