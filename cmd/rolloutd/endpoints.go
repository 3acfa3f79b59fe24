package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
)

// endpointLine is what upstream ls prints of an endpoint.
type endpointLine struct {
	// what the server sees
	catalog.Status

	// as the gateway has it; "": the gateway does not answer
	State string `json:"state,omitempty"`
}

func upstreamLs(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the endpoints, with a probe of each",
		Args:  cli.Arguments(),
		Long: "Ls lists the named endpoints of the server: their URLs, the answer to GET /models from the server's machine, and\n" +
			"their state at the gateway that the server asks. It makes no model call. It exits with 1 if a configured endpoint\n" +
			"gives no list of models.",
	}
	listsEndpoints(s, cmd)

	return cmd
}

// listsEndpoints makes a command list the endpoints.
func listsEndpoints(s std, cmd *cobra.Command) {
	asJSON := false
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the endpoints as JSON")
	connect := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c := connect()

		lines, unasked, err := listEndpoints(cmd.Context(), c)
		if err != nil {
			return hint(err, c)
		}

		if asJSON {
			err = json.NewEncoder(s.out).Encode(lines)
		} else {
			printEndpoints(s.out, lines)
		}

		if unasked != nil {
			fmt.Fprintln(s.err, "the state at the gateway is not known:", unasked)
		}

		if err == nil && slices.ContainsFunc(lines, endpointLine.ill) {
			err = exitError(cli.ExitError)
		}

		return err
	}
}

// ill reports whether an endpoint that is configured gives no list of models.
func (l endpointLine) ill() bool { return l.URL != "" && !l.Answers }

func printEndpoints(w io.Writer, lines []endpointLine) {
	t := cli.NewColumns(w, "ENDPOINT", "URL", "GATEWAY", "PROBE")

	for _, l := range lines {
		t.Row(l.Name, cmp.Or(l.URL, "-"), cmp.Or(l.State, "-"), l.Probe)
	}

	t.Flush()
}

// listEndpoints asks the server for the endpoints. unasked is why it did not say the state of one at the gateway.
func listEndpoints(ctx context.Context, c *client.Client) (lines []endpointLine, unasked, err error) {
	all, err := c.Endpoints(ctx)

	for _, found := range all {
		l := endpointLine{Status: found}

		if unasked == nil {
			var load catalog.Load

			load, unasked = c.EndpointLoad(ctx, l.Name)
			l.State = stateOf(load, unasked)
		}

		lines = append(lines, l)
	}

	return lines, unasked, err
}

// stateOf is the state of an endpoint at the gateway; "": it is not known.
func stateOf(load catalog.Load, unasked error) string {
	switch {
	case unasked != nil:
		return ""
	case load.Unreachable != "":
		return load.Unreachable
	case load.PausedUntil != nil:
		return "paused until " + load.PausedUntil.Local().Format(time.DateTime)
	case load.Busy != "":
		return load.Busy
	default:
		return "open"
	}
}
