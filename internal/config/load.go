package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LoadFile calls Load with the file at path; an empty path means no file.
func LoadFile(path string, env Environ) (Config, error) {
	if path == "" {
		return Load(nil, env)
	}
	f, err := os.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	c := Defaults()
	if err := c.fromFile(f); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, c.fromEnv(env)
}

// Load reads the defaults, the YAML of file (nil: none) and the environment; later ones override. It does not validate, since flags may
// follow.
func Load(file io.Reader, env Environ) (Config, error) {
	c := Defaults()
	if file != nil {
		if err := c.fromFile(file); err != nil {
			return Config{}, err
		}
	}
	return c, c.fromEnv(env)
}

func (c *Config) fromFile(r io.Reader) error {
	dec := yaml.NewDecoder(r)
	dec.KnownFields(true)
	var typeErr *yaml.TypeError
	switch err := dec.Decode(c); {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &typeErr):
		return fmt.Errorf("configuration: %w", withoutValues(typeErr))
	case err != nil:
		return fmt.Errorf("configuration: %w", err)
	}
	return refuseSecondDocument(dec)
}

// refuseSecondDocument accepts a final --- that nothing follows.
func refuseSecondDocument(dec *yaml.Decoder) error {
	for {
		var more any
		switch err := dec.Decode(&more); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil || more != nil:
			return errors.New("configuration: remove the second document after ---")
		}
	}
}

// withoutValues removes the values from a decoder's errors, which are between backticks, since a value may be a token.
func withoutValues(e *yaml.TypeError) error {
	out := &yaml.TypeError{}
	for _, text := range e.Errors {
		before, rest, _ := strings.Cut(text, " `")
		out.Errors = append(out.Errors, before+rest[strings.LastIndex(rest, "`")+1:])
	}
	return out
}
