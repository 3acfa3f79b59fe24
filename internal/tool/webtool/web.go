package webtool

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// Options of Tools.
type Options struct {
	// SearchURL is an endpoint that answers GET ?q=…&format=json as SearXNG does; "": no web_search.
	SearchURL string

	// sent to SearchURL as bearer token; "": none
	SearchKey string
	// Pages lists the special hosts that web_extract may reach; all public hosts are allowed.
	Pages egress.Policy
}

// Tools is a tool.Source. It is safe for concurrent use.
type Tools struct {
	o      Options
	search *http.Client
	pages  *http.Client
}

var _ tool.Source = (*Tools)(nil)

// New returns the tools.
func New(o Options) *Tools {
	return &Tools{
		o: o,
		search: &http.Client{
			Timeout:       time.Minute,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		pages: &http.Client{Timeout: time.Minute, Transport: o.Pages.Transport()},
	}
}

const (
	searchName  = "web_search"
	extractName = "web_extract"
)

// List implements tool.Source.
func (t *Tools) List(context.Context) ([]tool.Definition, error) {
	extract := tool.Definition{
		Name:        extractName,
		Description: "Read web pages as Markdown. Long pages are truncated.",
		Parameters: json.RawMessage(
			`{"type":"object","properties":{"urls":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":5,"description":"http and https URLs"}},"required":["urls"]}`,
		),
	}
	if t.o.SearchURL == "" {
		return []tool.Definition{extract}, nil
	}

	search := tool.Definition{
		Name:        searchName,
		Description: "Search the web. Returns up to 5 pages with title, URL and description.",
		Parameters: json.RawMessage(
			`{"type":"object","properties":{"query":{"type":"string","minLength":1,"description":"what to search for"}},"required":["query"]}`,
		),
	}

	return []tool.Definition{search, extract}, nil
}

// Call implements tool.Source.
func (t *Tools) Call(ctx context.Context, _ tool.Env, c tool.Call) (tool.Result, error) {
	var in struct {
		Query string   `json:"query"`
		URLs  []string `json:"urls"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("invalid arguments: " + err.Error()), nil
	}

	switch {
	case c.Name == searchName && t.o.SearchURL != "":
		if in.Query == "" {
			return tool.Failed("query: is empty"), nil
		}

		return t.find(ctx, in.Query)
	case c.Name == extractName:
		if len(in.URLs) == 0 || len(in.URLs) > maxPages {
			return tool.Failed(fmt.Sprintf("urls: must be 1 to %d URLs, got %d", maxPages, len(in.URLs))), nil
		}

		return t.extract(ctx, in.URLs)
	}

	return tool.Failed("Unknown tool: " + c.Name), nil
}

// asJSON returns a result whose text is JSON.
func asJSON(v any) (tool.Result, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return tool.Result{}, fault.Wrap(fault.Internal, err, "encode a result")
	}

	return tool.Result{Content: string(raw)}, nil
}
