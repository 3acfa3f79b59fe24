package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/catalog/probe"
	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
)

// askTime bounds a question to the gateway.
const askTime = 5 * time.Second

// endpointLine is what upstream ls prints of an endpoint.
type endpointLine struct {
	// what this process sees
	catalog.Status

	// as the gateway has it; "": the gateway does not answer
	State string `json:"state,omitempty"`
}

func upstreamLs(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the endpoints, with a probe of each",
		Args:  cli.Arguments(),
		Long: "Ls lists the named endpoints: their URLs by the configuration and environment of this process, their state at the\n" +
			"gateway, and the answer to GET /models from this machine. It makes no model call. It exits with 1 if a configured\n" +
			"endpoint gives no list of models.",
	}
	listsEndpoints(s, cmd)

	return cmd
}

// listsEndpoints makes a command list the endpoints.
func listsEndpoints(s std, cmd *cobra.Command) {
	f, asJSON := settings{s: s}, false
	f.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the endpoints as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := f.load(nil)
		if err != nil {
			return err
		}

		lines, ill, unasked := listEndpoints(cmd.Context(), cfg)

		if asJSON {
			err = json.NewEncoder(s.out).Encode(lines)
		} else {
			printEndpoints(s.out, lines)
		}

		if unasked != nil {
			fmt.Fprintln(s.err, "the state at the gateway is not known:", unasked)
		}

		if err == nil && ill {
			err = exitError(cli.ExitError)
		}

		return err
	}
}

func printEndpoints(w io.Writer, lines []endpointLine) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ENDPOINT\tURL\tGATEWAY\tPROBE")

	for _, l := range lines {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", l.Name, dash(l.URL), dash(l.State), l.Probe)
	}
	// fails only if the output is closed
	_ = t.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}

	return text
}

// listEndpoints probes all endpoints at once. ill: one that is configured gives no list of models. unasked is why the
// gateway did not say the state of an endpoint.
func listEndpoints(ctx context.Context, cfg config.Config) (lines []endpointLine, ill bool, unasked error) {
	// without the default that ModelLookup has for the scripted model
	set := func(variable string) string { return cfg.ModelEnv[variable] }

	for _, found := range probe.All(ctx, cfg.ModelLookup, set) {
		l := endpointLine{Status: found}

		if unasked == nil {
			l.State, unasked = stateAtGateway(ctx, cfg, l.Name)
		}

		lines = append(lines, l)
	}

	for _, l := range lines {
		ill = ill || l.URL != "" && !l.Answers
	}

	return lines, ill, unasked
}

// stateAtGateway is the state of an endpoint at the gateway.
func stateAtGateway(ctx context.Context, cfg config.Config, name string) (string, error) {
	c, err := daemon.Trainer(cfg)
	if err != nil {
		return "", err
	}

	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()

	switch st, err := c.Upstream(ctx, name); {
	case err != nil:
		return "", trainerError(err, cfg)
	case st.Unreachable != "":
		return st.Unreachable, nil
	case st.Paused:
		return "paused until " + st.Until.Local().Format(time.DateTime), nil
	case st.Busy != "":
		return st.Busy, nil
	default:
		return "open", nil
	}
}
