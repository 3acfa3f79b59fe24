package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// defaultServer is where rolloutd-dev and rolloutd serve listen unless told otherwise.
const defaultServer = "http://127.0.0.1:8000"

// serverFlag adds --server to a command that asks a server, and returns how to make a client of it. The command refuses variables that
// it would not see.
func serverFlag(cmd *cobra.Command, s std) func() *client.Client {
	fallback := &client.Client{URL: defaultServer}
	if url := s.env[config.ServerVariable]; url != "" {
		fallback.URL = url
	}
	url := cmd.Flags().String("server", fallback.URL, "server to ask (or "+config.ServerVariable+"; a bearer token goes into "+config.TokenVariable+")")
	cmd.Flags().Lookup("server").DefValue = fallback.Address() // what --help shows
	cmd.PreRunE = func(*cobra.Command, []string) error { return s.env.Check() }
	return func() *client.Client {
		token := strings.TrimSpace(s.env[config.TokenVariable]) // of a file, it may end with a line
		return &client.Client{URL: *url, Token: token, HTTP: &http.Client{}}
	}
}

// hint says how to get a server where there is none, and where a token goes.
func hint(err error, c *client.Client) error {
	var none *client.NoServerError
	switch {
	case fault.Is(err, fault.Unauthorized):
		return fmt.Errorf("%w\n  a token goes into the variable %s", err, config.TokenVariable)
	case !errors.As(err, &none):
		return err
	}
	return fmt.Errorf("%w\n  start one with:  rolloutd-dev          (everything in one process)\n"+
		"  or in parts:     rolloutd serve | worker | gateway, with a Temporal cluster\n"+
		"  or name another: --server URL          (asked: %s)", err, c.Address())
}
