package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/toolclient"
)

// defaultServer is where rolloutd-dev and rolloutd serve listen unless told otherwise.
const defaultServer = "http://127.0.0.1:8000"

// serverFlag adds --server to a command that asks a server, and returns how to make a client of it.
func serverFlag(cmd *cobra.Command, s std) func() *toolclient.Client {
	fallback := defaultServer
	if url, ok := s.env("ROLLOUTD_SERVER"); ok && url != "" {
		fallback = url
	}
	url := cmd.Flags().String("server", fallback, "server to ask (or ROLLOUTD_SERVER; a bearer token goes into ROLLOUTD_TOKEN)")
	return func() *toolclient.Client {
		token, _ := s.env("ROLLOUTD_TOKEN")
		return &toolclient.Client{URL: *url, Token: token, HTTP: &http.Client{}}
	}
}

// hint says how to get a server where there is none.
func hint(err error, c *toolclient.Client) error {
	var told *toolclient.Told
	if !fault.Is(err, fault.Unavailable) || errors.As(err, &told) {
		return err
	}
	return fmt.Errorf("%w\n  start one with:  rolloutd-dev          (everything in one process)\n"+
		"  or in parts:     rolloutd serve | worker | gateway, with a Temporal cluster\n"+
		"  or name another: --server URL          (asked: %s)", err, c.URL)
}
