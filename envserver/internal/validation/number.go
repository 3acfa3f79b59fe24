package validation

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Positive returns a number above zero; it may be null or absent. A string with a number is accepted, as in the
// reference.
func (c *Checker) Positive(field string) (float64, bool) {
	v, _ := c.get(field, false)
	if v == nil {
		return 0, false
	}

	f, ok := number(v)
	switch {
	case !ok:
		c.addIssue(field, "float_type", "Input should be a valid number", nil)
	case math.IsNaN(f) || f <= 0:
		c.addIssue(field, "greater_than", "Input should be greater than 0", map[string]any{"gt": 0.0})
	default:
		return f, true
	}

	return 0, false
}

// NaturalInt checks a whole number of any size that is not negative; it may be null or absent.
func (c *Checker) NaturalInt(field string) {
	v, _ := c.get(field, false)
	if v == nil {
		return
	}

	f, ok := number(v)
	switch {
	case !ok || !isWhole(f):
		c.addNoInteger(field)
	case f < 0:
		c.addIssue(field, "greater_than_equal", "Input should be greater than or equal to 0", map[string]any{"ge": 0})
	}
}

// Int returns a whole number of 32 bits. An optional one may be null or absent; the result is then nil.
func (c *Checker) Int(field string, required bool) *int {
	v, present := c.get(field, required)
	if !present || v == nil && !required {
		return nil
	}

	f, ok := number(v)
	if !ok || !isWhole(f) || math.Abs(f) > math.MaxInt32 {
		c.addNoInteger(field)
		return nil
	}

	n := int(f)

	return &n
}

func (c *Checker) addNoInteger(field string) {
	c.addIssue(field, "int_type", "Input should be a valid integer", nil)
}

// number converts a decoded number, or a string with one. The MCP library decodes numbers as float64.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case json.Number:
		return parse(string(v))
	case string:
		return parse(strings.TrimSpace(v))
	default:
		return 0, false
	}
}

func parse(text string) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)

	return f, err == nil
}

func isWhole(f float64) bool { return f == math.Trunc(f) && !math.IsInf(f, 0) }

func plural(before string, n int, after string) string {
	s := before + strconv.Itoa(n) + after
	if n != 1 {
		s += "s"
	}

	return s
}
