package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// Hosts lists the hosts of the deployment.
func (c *Client) Hosts(ctx context.Context) (fleet.Page, error) {
	var page fleet.Page

	err := c.host(ctx, http.MethodGet, "/hosts", &page)

	return page, err
}

// HostNames returns the names of the hosts that begin with a text.
func (c *Client) HostNames(ctx context.Context, begin string) ([]string, error) {
	page, err := c.Hosts(ctx)

	var names []string

	for _, h := range page.Hosts {
		if strings.HasPrefix(h.Name, begin) {
			names = append(names, h.Name)
		}
	}

	return names, err
}

// DrainHost sets whether a host takes no new sandboxes.
func (c *Client) DrainHost(ctx context.Context, name string, on bool) (fleet.Host, error) {
	action := "resume"
	if on {
		action = "drain"
	}

	var h fleet.Host

	err := c.host(ctx, http.MethodPost, "/hosts/"+url.PathEscape(name)+"/"+action, &h)

	return h, err
}

func (c *Client) host(ctx context.Context, method, path string, answer any) error {
	reply, err := c.do(ctx, method, path, http.NoBody)
	if err != nil {
		return err
	}

	if err := json.Unmarshal(reply, answer); err != nil {
		return noServer(c.Address(), fmt.Errorf("decode the answer: %w", err))
	}

	return nil
}
