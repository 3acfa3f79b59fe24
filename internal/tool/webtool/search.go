package webtool

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/tool"
)

const (
	maxHits = 5

	// characters
	maxHitField = 1000

	// bytes of a query
	maxSearchLen = 2000
)

// hit is one found page.
type hit struct {
	Title       string `json:"title"`
	URL         string `json:"url"`
	Description string `json:"description"`
	Position    int    `json:"position"`
}

// searchRequest asks the search endpoint for the results of a query.
func (t *Tools) searchRequest(ctx context.Context, query string) (*http.Request, error) {
	target, err := url.Parse(t.o.SearchURL)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "search endpoint")
	}

	values := target.Query()
	values.Set("q", query)
	values.Set("format", "json")
	target.RawQuery = values.Encode()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "search")
	}

	if t.o.SearchKey != "" {
		req.Header.Set("Authorization", "Bearer "+t.o.SearchKey)
	}

	return req, nil
}

// find queries the search endpoint. An unexpected answer is an infrastructure failure.
func (t *Tools) find(ctx context.Context, query string) (tool.Result, error) {
	if len(query) > maxSearchLen {
		return tool.Failed("query: is longer than 2000 bytes"), nil
	}

	req, err := t.searchRequest(ctx, query)
	if err != nil {
		return tool.Result{}, err
	}

	res, err := t.search.Do(req)
	if err != nil {
		return tool.Result{}, fault.Wrap(fault.Unavailable, withoutURL(err), "search endpoint")
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return tool.Result{}, fault.New(fault.Unavailable, "search endpoint: status %d", res.StatusCode)
	}

	var found struct {
		Results []struct{ Title, URL, Content string } `json:"results"`
	}

	limits := jsoninput.Limits{Bytes: 4 << 20, Elements: 100_000, Depth: 32}
	if err := json.NewDecoder(jsoninput.NewReader(res.Body, limits)).Decode(&found); err != nil {
		return tool.Result{}, fault.Wrap(fault.Unavailable, err,
			"the search endpoint must answer with JSON that has results")
	}

	hits := []hit{}
	for i, r := range found.Results[:min(len(found.Results), maxHits)] {
		hits = append(hits, hit{
			text.HeadUTF8(r.Title, maxHitField), text.HeadUTF8(r.URL, maxHitField),
			text.HeadUTF8(r.Content, maxHitField), i + 1,
		})
	}

	return asJSON(map[string]any{"success": true, "data": map[string]any{"web": hits}})
}
