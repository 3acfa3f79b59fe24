package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/rolloutd/rolloutd/internal/catalog"
)

// Endpoints returns the model endpoints of the server, with a probe of each.
func (c *Client) Endpoints(ctx context.Context) ([]catalog.Status, error) {
	var list struct {
		Endpoints []catalog.Status `json:"endpoints"`
	}

	err := c.host(ctx, http.MethodGet, "/endpoints", &list)

	return list.Endpoints, err
}

// EndpointLoad returns what the gateway that the server asks knows of an endpoint; fault.Unavailable: it does not answer.
func (c *Client) EndpointLoad(ctx context.Context, name string) (catalog.Load, error) {
	var load catalog.Load

	err := c.host(ctx, http.MethodGet, "/endpoints/"+url.PathEscape(name), &load)

	return load, err
}
