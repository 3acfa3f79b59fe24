// Package probe asks model endpoints whether they answer.
package probe

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
	"time"

	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

const (
	// maxTime bounds one probe.
	maxTime = 5 * time.Second

	// maxModels bounds the reply of a probe, in bytes.
	maxModels = 4 << 20
)

// Lookup returns a variable of the catalog; "": it is not set.
type Lookup func(name string) string

// All probes the endpoints of the catalog at once. Of lookup it takes their URLs and keys. set has only what somebody has
// configured: an endpoint with a default URL counts as configured if it answers there.
func All(ctx context.Context, lookup, set Lookup) []catalog.Status {
	var probes sync.WaitGroup

	known := catalog.New(lookup, egress.Policy{})
	all := make([]catalog.Status, len(catalog.Names()))

	for i, name := range catalog.Names() {
		all[i].Name = name

		probes.Go(func() { probe(ctx, known, catalog.Unset(name, set), &all[i]) })
	}

	probes.Wait()

	return all
}

// probe probes an endpoint by its name. unset is the variable that would configure it.
func probe(ctx context.Context, known *catalog.Catalog, unset string, s *catalog.Status) {
	switch model, key, err := known.Resolve(catalog.Request{Endpoint: s.Name}); {
	case err == nil:
		engines := strings.Split(model.BaseURL, ",")
		s.URL, s.Model = upstream.NameOf(engines[0]), model.Name
		s.Probe, s.Answers = probeEngines(ctx, engines, key)
	case unset == "":
		s.Probe = "invalid: " + err.Error()
	}

	if unset != "" && !s.Answers {
		s.URL, s.Model, s.Probe = "", "", "not configured: "+unset+" is not set"
	}
}

// probeEngines asks engines for their models until one does not give them.
func probeEngines(ctx context.Context, engines []string, key string) (answer string, ok bool) {
	for _, engine := range engines {
		if answer, ok = probeEngine(ctx, engine, key); !ok && len(engines) > 1 {
			return upstream.NameOf(engine) + ": " + answer, false
		}
	}

	return answer, ok
}

func probeEngine(ctx context.Context, engine, key string) (answer string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
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
