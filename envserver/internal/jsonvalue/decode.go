// Package jsonvalue decodes the JSON of clients into values of any type, within bounds, and encodes values as the
// reference server does.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// SyntaxError is the first syntax error of a text. Pos counts characters (not bytes) from 0.
type SyntaxError struct {
	Msg string
	Pos int
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s (character %d)", e.Msg, e.Pos) }

// Decode reads one value: nil, bool, string, json.Number, []any or map[string]any. Of a repeated name the last value
// counts, and half of a surrogate pair becomes U+FFFD. The error is a *SyntaxError.
//
// It reads the text in place: the decoder of encoding/json, which alone keeps the digits of numbers, copies the text.
func Decode(data []byte) (any, error) {
	if err := Check(data); err != nil {
		return nil, &SyntaxError{Msg: err.Error()}
	}

	if !utf8.Valid(data) {
		return nil, &SyntaxError{Msg: "text is not UTF-8"}
	}

	dec := jsontext.NewDecoder(bytes.NewBuffer(data),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

	v, err := readValue(dec)
	if err != nil {
		return nil, syntaxError(data, dec, err)
	}

	rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\r\n")
	if len(rest) > 0 {
		return nil, &SyntaxError{Msg: "text after the value", Pos: utf8.RuneCount(data[:len(data)-len(rest)])}
	}

	return v, nil
}

// readValue reads the next value, whose depth Check has bounded.
func readValue(dec *jsontext.Decoder) (any, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}

	switch token.Kind() {
	case '"':
		return token.String(), nil
	case '0':
		return readNumber(token.String())
	case 't', 'f':
		return token.Bool(), nil
	case '[':
		return readArray(dec)
	case '{':
		return readObject(dec)
	default:
		return nil, nil
	}
}

// readNumber keeps the digits of a number. One beyond a float64, which JSON allows, would stop a later decoder.
func readNumber(text string) (any, error) {
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return nil, errors.New("number out of range")
	}

	return json.Number(text), nil
}

// readArray reads the rest of an array.
func readArray(dec *jsontext.Decoder) (any, error) {
	list := []any{}

	for dec.PeekKind() != ']' {
		v, err := readValue(dec)
		if err != nil {
			return nil, err
		}

		list = append(list, v)
	}

	_, err := dec.ReadToken()

	return list, err
}

// readObject reads the rest of an object.
func readObject(dec *jsontext.Decoder) (any, error) {
	object := map[string]any{}

	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}

		name := token.String()
		if object[name], err = readValue(dec); err != nil {
			return nil, err
		}
	}

	_, err := dec.ReadToken()

	return object, err
}

// syntaxError converts an error of the decoder.
func syntaxError(data []byte, dec *jsontext.Decoder, err error) error {
	var syntactic *jsontext.SyntacticError

	switch {
	case errors.As(err, &syntactic):
		at := min(int(syntactic.ByteOffset), len(data))
		return &SyntaxError{Msg: syntactic.Err.Error(), Pos: utf8.RuneCount(data[:at])}
	case errors.Is(err, io.EOF):
		return &SyntaxError{Msg: "there is no value", Pos: utf8.RuneCount(data)}
	default:
		return &SyntaxError{Msg: err.Error(), Pos: utf8.RuneCount(data[:dec.InputOffset()])}
	}
}
