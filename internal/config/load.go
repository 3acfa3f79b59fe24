package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/rolloutd/rolloutd/internal/input/yamlinput"
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
		return Config{}, c.otherProblems(fmt.Errorf("%s: %w", path, err), env)
	}

	return c, c.fromEnv(env)
}

// otherProblems adds the other problems of a configuration to an error of its file, so that all are known
// at once. The fields of a file that does not decode as a whole have their defaults.
func (c *Config) otherProblems(err error, env Environ) error {
	return errors.Join(err, c.fromEnv(env), c.Validate())
}

// Load reads the defaults, the YAML of file (nil: none) and the environment; later ones override. It does
// not validate, since flags may follow.
func Load(file io.Reader, env Environ) (Config, error) {
	c := Defaults()
	if file != nil {
		if err := c.fromFile(file); err != nil {
			return Config{}, c.otherProblems(err, env)
		}
	}

	return c, c.fromEnv(env)
}

func (c *Config) fromFile(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}

	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)

	switch err := dec.Decode(c); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("configuration: %w", configFile().ExplainIn(err, text))
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

// configFile describes configuration files for the errors about them.
func configFile() yamlinput.File {
	return yamlinput.File{
		Type:   reflect.TypeFor[Config](),
		Noun:   "the configuration",
		Shape:  "a mapping with sections such as serve and worker",
		Secret: true,
	}
}
