package pyjson

import (
	"encoding/json"
	"math"
	"strconv"
)

var words = []struct {
	text  string
	value any
}{
	{"null", nil}, {"true", true}, {"false", false},
	{"NaN", math.NaN()}, {"Infinity", math.Inf(1)}, {"-Infinity", math.Inf(-1)},
}

func (d *decoder) word() (any, error) {
	for _, w := range words {
		if end := d.pos + len(w.text); end <= len(d.data) && string(d.data[d.pos:end]) == w.text {
			d.pos = end
			return w.value, nil
		}
	}

	return nil, d.fail(d.pos, "expected a value")
}

func (d *decoder) digits() int {
	start := d.pos
	for c := d.peek(); c >= '0' && c <= '9'; c = d.peek() {
		d.pos++
	}

	return d.pos - start
}

func (d *decoder) number() (any, error) {
	start := d.pos
	if d.peek() == '-' {
		d.pos++
	}

	if d.peek() == '0' {
		d.pos++
	} else if d.digits() == 0 {
		d.pos = start
		// -Infinity, or no value at all
		return d.word()
	}

	whole := !d.fraction()
	whole = !d.exponent() && whole

	text := string(d.data[start:d.pos])
	if !whole {
		if f, err := strconv.ParseFloat(text, 64); err != nil {
			// out of range: ±Inf, as Python reads it
			return f, nil
		}
	}

	return json.Number(text), nil
}

// fraction reads a dot with digits. It does not consume a dot without digits, which is then a syntax error,
// as in Python.
func (d *decoder) fraction() bool {
	back := d.pos
	if d.peek() == '.' {
		d.pos++
		if d.digits() > 0 {
			return true
		}
	}

	d.pos = back

	return false
}

func (d *decoder) exponent() bool {
	back := d.pos
	if c := d.peek(); c == 'e' || c == 'E' {
		d.pos++
		if c := d.peek(); c == '+' || c == '-' {
			d.pos++
		}

		if d.digits() > 0 {
			return true
		}
	}

	d.pos = back

	return false
}
