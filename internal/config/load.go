package config

import (
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

// Lookup finds a variable of the environment, as os.LookupEnv does.
type Lookup func(name string) (string, bool)

// LoadFile is Load of the file at path; an empty path means none.
func LoadFile(path string, env Lookup) (Config, error) {
	if path == "" {
		return Load(nil, env)
	}
	f, err := os.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	c, err := Load(f, env)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Load reads the defaults, then the YAML of file (nil: none), then the environment, each over the one before. It does not
// validate: flags may still follow.
func Load(file io.Reader, env Lookup) (Config, error) {
	c := Defaults()
	if file != nil {
		dec := yaml.NewDecoder(file)
		dec.KnownFields(true)
		if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
			return Config{}, fmt.Errorf("configuration: %w", err)
		}
	}
	if err := c.fromEnv(env); err != nil {
		return Config{}, fmt.Errorf("environment: %w", err)
	}
	return c, nil
}
