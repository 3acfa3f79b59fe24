package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/toolclient"
)

// defaultServer is where rolloutd-dev and rolloutd serve listen unless told otherwise.
const defaultServer = "http://127.0.0.1:8000"

// serverFlag adds --server to a command that asks a server, and returns how to make a client of it. The command refuses variables that
// it would not see.
func serverFlag(cmd *cobra.Command, s std) func() *toolclient.Client {
	fallback := defaultServer
	if url := s.env[config.ServerVariable]; url != "" {
		fallback = url
	}
	url := cmd.Flags().String("server", fallback, "server to ask (or "+config.ServerVariable+"; a bearer token goes into "+config.TokenVariable+")")
	cmd.PreRunE = func(*cobra.Command, []string) error { return s.env.Check() }
	return func() *toolclient.Client {
		return &toolclient.Client{URL: *url, Token: s.env[config.TokenVariable], HTTP: &http.Client{}}
	}
}

// hint says how to get a server where there is none, and where a token goes.
func hint(err error, c *toolclient.Client) error {
	var none *toolclient.NoServerError
	switch {
	case fault.Is(err, fault.Unauthorized):
		return fmt.Errorf("%w\n  a token goes into the variable %s", err, config.TokenVariable)
	case !errors.As(err, &none):
		return err
	}
	return fmt.Errorf("%w\n  start one with:  rolloutd-dev          (everything in one process)\n"+
		"  or in parts:     rolloutd serve | worker | gateway, with a Temporal cluster\n"+
		"  or name another: --server URL          (asked: %s)", err, c.URL)
}
