package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/config"
)

// settings are the flags of commands that read the configuration.
type settings struct {
	file    string
	data    string
	verbose bool
	s       std
}

func (f *settings) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file (YAML); the environment overrides it")
	cmd.Flags().StringVar(&f.data, "data", "", "data folder (default ./.rolloutd, or ROLLOUTD_DATA)")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log more")
}

// load reads the configuration, applies change to it, which sets flags, and validates it.
func (f *settings) load(change func(*config.Config)) (config.Config, error) {
	c, err := config.LoadFile(f.file, f.s.env)
	if err != nil {
		return config.Config{}, err
	}

	if f.data != "" {
		c.Data = f.data
	}

	if change != nil {
		change(&c)
	}

	if err := c.Validate(); err != nil {
		return config.Config{}, fmt.Errorf("configuration:\n%w", err)
	}

	return c, nil
}

func (f *settings) log() *slog.Logger {
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}

	return slog.New(slog.NewTextHandler(f.s.err, &slog.HandlerOptions{Level: level}))
}
