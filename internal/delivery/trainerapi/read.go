package trainerapi

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// reader reads the JSON text of scored groups. Most of it are lists of numbers: it checks each number and keeps none.
type reader struct {
	*jsontext.Decoder

	text []byte
}

// newReader reads what Python's readers accept. They take the last of equal names, and half of a surrogate pair, which a
// policy may write and Python's json passes on.
func newReader(text []byte) reader {
	return reader{
		jsontext.NewDecoder(
			bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
		),
		text,
	}
}

// rest returns the text that is not read yet, without what separates it from the last value.
func (r reader) rest() []byte { return bytes.TrimLeft(r.text[r.InputOffset():], " \t\r\n,:") }

// broken returns the error for a text that is not the JSON that the field must be or have.
func (r reader) broken(field, must string) error {
	rest := r.rest()
	at := len(r.text) - len(rest)

	return fault.Field(field, "%s, got %q at byte %d", must, rest[:min(len(rest), 12)], at)
}

// end reports text after the last value.
func (r reader) end() error {
	if len(bytes.TrimLeft(r.text[r.InputOffset():], " \t\r\n")) > 0 {
		return r.broken("body", "must have nothing after its end")
	}

	return nil
}

// raw calls read, which reads the next value, and returns the value's text.
func (r reader) raw(read func() error) ([]byte, error) {
	start := len(r.text) - len(r.rest())

	if err := read(); err != nil {
		return nil, err
	}

	return r.text[start:r.InputOffset()], nil
}

// value reads any value.
func (r reader) value(field string) ([]byte, error) {
	raw, err := r.ReadValue()
	if err != nil {
		return nil, r.broken(field, "must be JSON with finite numbers")
	}

	if !rawjson.Nestable(raw) {
		return nil, fault.Field(field, "must be nested less, so that every reader accepts it")
	}

	return raw, nil
}

// null reads a null if it comes next.
func (r reader) null() bool {
	return r.PeekKind() == 'n' && r.SkipValue() == nil
}

// object calls member for each member of an object, which reads the value.
func (r reader) object(member func(name string) error) error {
	if r.PeekKind() != '{' {
		return r.broken("body", "must be a JSON object")
	}

	for {
		token, err := r.ReadToken()

		switch {
		case err != nil:
			return r.broken("body", "must have a name in quotes, a colon and a value for each member")
		case token.Kind() == '{':
			continue
		case token.Kind() == '}':
			return nil
		}

		if err := member(token.String()); err != nil {
			return err
		}
	}
}

// list calls element for each element of a list, at most most, which reads the element. It returns their number.
func (r reader) list(field string, most int, element func(n int) error) (n int, err error) {
	if r.PeekKind() != '[' {
		return 0, r.broken(field, "must be a list")
	}

	if _, err := r.ReadToken(); err != nil {
		return 0, err
	}

	for ; r.PeekKind() != ']'; n++ {
		if n == most {
			return 0, fault.Field(field, "must have at most %d elements", most)
		}

		if err := element(n); err != nil {
			return 0, err
		}
	}

	_, err = r.ReadToken()

	return n, err
}

// ints checks a list of whole numbers from least to most and counts them.
func (r reader) ints(field string, least, most int64) (int, error) {
	return r.list(field, math.MaxInt, func(n int) error {
		number, err := r.ReadValue()
		if err != nil {
			return r.broken(at(field, n), "must be a whole number")
		}

		v, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || v < least || v > most {
			return fault.Field(at(field, n), "must be a whole number from %d to %d, got %.30s", least, most, number)
		}

		return nil
	})
}

// floats checks a list of finite numbers and counts them.
func (r reader) floats(field string) (int, error) {
	return r.list(field, math.MaxInt, func(n int) error {
		number, err := r.ReadValue()
		if err != nil {
			return r.broken(at(field, n), "must be a finite number")
		}

		if _, err := strconv.ParseFloat(string(number), 64); err != nil {
			return fault.Field(at(field, n), "must be a finite number, got %.30s", number)
		}

		return nil
	})
}

func at(field string, indices ...int) string {
	for _, i := range indices {
		field += fmt.Sprintf("[%d]", i)
	}

	return field
}
