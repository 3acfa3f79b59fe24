package config

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// unset is the setter of variables that are read elsewhere.
func unset(*Config, string) error { return nil }

func text(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error { *at(c) = v; return nil }
}

func number(at func(*Config) *int) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		if *at(c), err = strconv.Atoi(v); err != nil {
			return errors.New("must be a whole number")
		}

		return nil
	}
}

func decimal(at func(*Config) *float64) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		if *at(c), err = strconv.ParseFloat(v, 64); err != nil {
			return errors.New("must be a number")
		}

		return nil
	}
}

func span(at func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		if *at(c), err = time.ParseDuration(v); err != nil {
			return errors.New(`must be a duration such as "55s" or "5m"`)
		}

		return nil
	}
}

func boolean(at func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		switch strings.ToLower(v) {
		case "yes":
			v = "true"
		case "no":
			v = "false"
		}

		if *at(c), err = strconv.ParseBool(strings.ToLower(v)); err != nil {
			return errors.New("must be true or false")
		}

		return nil
	}
}

func list(at func(*Config) *[]string) func(*Config, string) error {
	return func(c *Config, v string) error {
		*at(c) = nil

		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*at(c) = append(*at(c), item)
			}
		}

		return nil
	}
}
