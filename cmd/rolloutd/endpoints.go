package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

const (
	// probeTime bounds one probe.
	probeTime = 5 * time.Second

	// maxModels bounds the reply of a probe, in bytes.
	maxModels = 4 << 20
)

// endpointLine is what upstream ls prints of an endpoint.
type endpointLine struct {
	Name string `json:"endpoint"`
	URL  string `json:"url,omitempty"`

	// as the gateway has it; "": the gateway does not answer
	State string `json:"state,omitempty"`

	// what this process sees
	Probe   string `json:"probe"`
	Answers bool   `json:"answers"`
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
	var probes sync.WaitGroup

	known := catalog.New(cfg.ModelLookup, egress.Policy{})
	lines = make([]endpointLine, len(catalog.Names()))

	for i, name := range catalog.Names() {
		l := &lines[i]
		l.Name = name

		if unasked == nil {
			l.State, unasked = stateAtGateway(ctx, cfg, name)
		}

		// without the default that ModelLookup has for the scripted model
		unset := catalog.Unset(name, func(variable string) string { return cfg.ModelEnv[variable] })

		probes.Go(func() { probeEndpoint(ctx, known, unset, l) })
	}

	probes.Wait()

	for _, l := range lines {
		ill = ill || l.URL != "" && !l.Answers
	}

	return lines, ill, unasked
}

// probeEndpoint probes an endpoint by its name. unset is the variable that would configure it: one with a default URL
// counts as configured if it answers there.
func probeEndpoint(ctx context.Context, known *catalog.Catalog, unset string, l *endpointLine) {
	switch model, key, err := known.Resolve(catalog.Request{Endpoint: l.Name}); {
	case err == nil:
		engines := strings.Split(model.BaseURL, ",")
		l.URL = upstream.NameOf(engines[0])
		l.Probe, l.Answers = probeEngines(ctx, engines, key)
	case unset == "":
		l.Probe = "invalid: " + err.Error()
	}

	if unset != "" && !l.Answers {
		l.URL, l.Probe = "", "not configured: "+unset+" is not set"
	}
}

// stateAtGateway is the state of an endpoint at the gateway.
func stateAtGateway(ctx context.Context, cfg config.Config, name string) (string, error) {
	c, err := daemon.Trainer(cfg)
	if err != nil {
		return "", err
	}

	ctx, cancel := context.WithTimeout(ctx, probeTime)
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

// probeEngines asks engines for their models until one does not give them.
func probeEngines(ctx context.Context, engines []string, key string) (said string, ok bool) {
	for _, engine := range engines {
		if said, ok = probeEngine(ctx, engine, key); !ok && len(engines) > 1 {
			return upstream.NameOf(engine) + ": " + said, false
		}
	}

	return said, ok
}

func probeEngine(ctx context.Context, engine, key string) (said string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(engine, "/")+"/models", http.NoBody)
	if err != nil {
		return "its URL is invalid", false
	}

	req.Header.Set("Authorization", "Bearer "+key)

	// not followed: the request carries a key
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return noAnswer(err), false
	}
	defer res.Body.Close()

	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}

	switch err := json.NewDecoder(io.LimitReader(res.Body, maxModels)).Decode(&list); {
	case res.StatusCode != http.StatusOK:
		return "answers " + res.Status, false
	case err != nil:
		return "answers, but gives no list of models", false
	default:
		return fmt.Sprintf("answers, models: %d", len(list.Data)), true
	}
}

// noAnswer is why there was no response. Only an error of the connection itself is told from others.
func noAnswer(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Sprintf("unreachable (%v)", op)
	}

	return "no answer: " + err.Error()
}
