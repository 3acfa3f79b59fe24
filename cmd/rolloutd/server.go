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

// defaultServer is the default address of rolloutd-dev and rolloutd serve.
const defaultServer = "http://127.0.0.1:8000"

// serverFlag adds --server to a command and returns a function that creates the client. The command refuses
// unknown ROLLOUTD_ variables.
func serverFlag(cmd *cobra.Command, s std) func() *client.Client {
	fallback := &client.Client{URL: defaultServer}
	if url := s.env[config.ServerVariable]; url != "" {
		fallback.URL = url
	}

	url := cmd.Flags().String("server", fallback.URL,
		"URL of the server (or "+config.ServerVariable+"; set a bearer token in "+config.TokenVariable+")")
	// for --help
	cmd.Flags().Lookup("server").DefValue = fallback.Address()
	cmd.PreRunE = func(*cobra.Command, []string) error { return s.env.Check() }

	return func() *client.Client {
		// a token read from a file may end with a line break
		token := strings.TrimSpace(s.env[config.TokenVariable])
		return &client.Client{URL: *url, Token: token, HTTP: &http.Client{}}
	}
}

// hint adds to an error how to start a server or where to set a token.
func hint(err error, c *client.Client) error {
	var none *client.NoServerError
	switch {
	case fault.Is(err, fault.Unauthorized):
		return fmt.Errorf("%w\n  set the token in %s", err, config.TokenVariable)
	case !errors.As(err, &none):
		return err
	}

	return fmt.Errorf("%w\n  start one with:  rolloutd-dev          (everything in one process)\n"+
		"  or as roles:     rolloutd serve | worker | gateway, with a Temporal cluster\n"+
		"  or use another:  --server URL          (tried: %s)", err, c.Address())
}
