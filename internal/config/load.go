package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/rolloutd/rolloutd/internal/yamlerror"
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
	switch err := dec.Decode(c); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("configuration: %w", configFile().Explain(err))
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
func configFile() yamlerror.File {
	return yamlerror.File{Type: reflect.TypeFor[Config](), Noun: "the configuration", Shape: "a mapping with sections such as serve and worker", Secret: true}
}
