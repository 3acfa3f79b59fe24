package issue

import (
	"math"
	"strconv"
	"strings"
)

// Positive returns a number above zero; it may be null or absent. A string with a number is accepted, as pydantic does.
func (c *Checker) Positive(field string) (float64, bool) {
	v, _ := c.get(field, false)
	if v == nil {
		return 0, false
	}

	f, ok := float(v)
	switch _, isString := v.(string); {
	case !ok && isString:
		c.add(field, "float_parsing", "Input should be a valid number, unable to parse string as a number", nil)
	case !ok:
		c.add(field, "float_type", "Input should be a valid number", nil)
	case math.IsNaN(f) || f <= 0:
		c.add(field, "greater_than", "Input should be greater than 0", map[string]any{"gt": 0.0})
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

	f, ok := float(v)

	text, isString := v.(string)
	switch {
	case isString && (!ok || !integral(f) || strings.ContainsAny(text, "eE")):
		c.add(field, "int_parsing", "Input should be a valid integer, unable to parse string as an integer", nil)
	case !ok:
		c.add(field, "int_type", "Input should be a valid integer", nil)
	case math.IsNaN(f) || math.IsInf(f, 0):
		c.add(field, "finite_number", "Input should be a finite number", nil)
	case !isInt(v) && math.Abs(f) >= 1<<63:
		c.add(field, "int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size", nil)
	case !isInt(v) && !integral(f):
		c.add(field, "int_from_float", "Input should be a valid integer, got a number with a fractional part", nil)
	case f < 0:
		c.add(field, "greater_than_equal", "Input should be greater than or equal to 0", map[string]any{"ge": 0})
	}
}

// Int returns a whole number of 32 bits. An optional one may be null or absent; the result is then nil.
func (c *Checker) Int(field string, required bool) *int {
	v, present := c.get(field, required)
	if !present || v == nil && !required {
		return nil
	}

	f, ok := float(v)
	switch _, isString := v.(string); {
	case isString && (!ok || !integral(f)):
		c.add(field, "int_parsing", "Input should be a valid integer, unable to parse string as an integer", nil)
	case !ok:
		c.add(field, "int_type", "Input should be a valid integer", nil)
	case !integral(f):
		c.add(field, "int_from_float", "Input should be a valid integer, got a number with a fractional part", nil)
	case math.Abs(f) > math.MaxInt32:
		c.add(field, "int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size", nil)
	default:
		n := int(f)
		return &n
	}

	return nil
}

func plural(before string, n int, after string) string {
	s := before + strconv.Itoa(n) + after
	if n != 1 {
		s += "s"
	}

	return s
}
