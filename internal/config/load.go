package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LoadFile is Load of the file at path; an empty path means none.
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

// Load reads the defaults, then the YAML of file (nil: none), then the environment, each over the one before. It does not
// validate: flags may still follow.
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
	var odd *yaml.TypeError
	switch err := dec.Decode(c); {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &odd):
		return fmt.Errorf("configuration: %w", withoutValues(odd))
	case err != nil:
		return fmt.Errorf("configuration: %w", err)
	}
	return alone(dec)
}

// alone refuses what follows the first document; a --- that nothing follows is let pass.
func alone(dec *yaml.Decoder) error {
	for {
		var more any
		switch err := dec.Decode(&more); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil || more != nil:
			return errors.New("configuration: there is a second document after ---, which would not be read")
		}
	}
}

// withoutValues takes out the values that are told of, each between backticks: one may be a token. Its line says enough.
func withoutValues(e *yaml.TypeError) error {
	out := &yaml.TypeError{}
	for _, text := range e.Errors {
		before, rest, _ := strings.Cut(text, " `")
		out.Errors = append(out.Errors, before+rest[strings.LastIndex(rest, "`")+1:])
	}
	return out
}
