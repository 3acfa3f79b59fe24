package hostapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/store"
)

const (
	// Interval is how often a host writes its record, which shows servers that do not reach it that it is alive.
	Interval = time.Minute
	// lostAfter is the age of its record at which a host counts as lost.
	lostAfter = 3 * Interval
	// forgottenAfter is the age of its record at which a host is not listed any more.
	forgottenAfter = 24 * time.Hour
	statusTimeout  = 5 * time.Second

	// bytes
	maxStatus = 64 << 10

	// bounds the hosts that are asked at once
	maxCalls = 16
)

// Hosts lists the hosts of the deployment. It calls each host; for one that does not answer it returns the record.
func (c *Client) Hosts(ctx context.Context) (fleet.Page, error) {
	records, err := c.store.Hosts(ctx)
	if err != nil {
		return fleet.Page{}, err
	}

	all := make([]fleet.Host, len(records))

	var asking errgroup.Group
	asking.SetLimit(maxCalls)

	for i, at := range records {
		asking.Go(func() error { all[i] = c.readStatus(ctx, at, http.MethodGet); return nil })
	}
	// none fails
	_ = asking.Wait()
	page := fleet.Page{Hosts: []fleet.Host{}}

	for _, h := range all {
		if time.Since(h.SeenAt) < forgottenAfter {
			page.Hosts = append(page.Hosts, h)
		}
	}

	return page, nil
}

// Drain sets whether a host takes no new sandboxes, and returns the host. A host that does not answer reads
// the mark when it writes its next record, or when it starts.
func (c *Client) Drain(ctx context.Context, name string, on bool) (fleet.Host, error) {
	if !fleet.IsName(name) {
		return fleet.Host{}, fault.New(fault.NotFound, "no host %q", name)
	}

	at, err := c.store.Host(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return fleet.Host{}, fault.New(fault.NotFound, "no host %q", name)
	}

	if err == nil {
		err = c.store.SetDrained(ctx, name, on)
	}

	if err != nil {
		return fleet.Host{}, err
	}

	at.ID = name

	return c.readStatus(ctx, at, http.MethodPost), nil
}

// MarkDrain is Drain for a host that may not have started yet; it reads the mark when it starts.
func (c *Client) MarkDrain(ctx context.Context, name string, on bool) error {
	if err := c.store.SetDrained(ctx, name, on); err != nil {
		return err
	}

	at, err := c.store.Host(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return nil
	}

	if err == nil {
		_, err = c.status(ctx, at, http.MethodPost)
	}

	if fault.Is(err, fault.Unavailable) {
		// it reads its mark within a minute
		return nil
	}

	return err
}

// readStatus returns the status of a host. With method POST the host reads its mark in the store first.
func (c *Client) readStatus(ctx context.Context, at store.HostRecord, method string) fleet.Host {
	if at.KeyID != "" && at.KeyID != c.keyID {
		return c.refused(at)
	}

	h, err := c.status(ctx, at, method)
	if err == nil {
		return h
	}

	h = at.Status

	h.Name, h.StartedAt, h.SeenAt, h.Error = at.ID, at.StartedAt, at.At, err.Error()
	if drained, err := c.store.Drained(ctx, at.ID); err == nil {
		h.State = StateOf(h, drained)
	}

	if time.Since(at.At) > lostAfter {
		h.State = fleet.Lost
	}

	return h
}

// refused is the status of a host with another encryption key. It is not called: it would refuse the token.
func (c *Client) refused(at store.HostRecord) fleet.Host {
	h := at.Status

	h.Name, h.StartedAt, h.SeenAt, h.State = at.ID, at.StartedAt, at.At, fleet.Refused
	if h.Error == "" {
		h.Error = fmt.Sprintf("its encryption key %q is not that of this server, %q: give every role the same key",
			at.KeyID, c.keyID)
	}

	return h
}

func (c *Client) status(ctx context.Context, at store.HostRecord, method string) (h fleet.Host, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()

	res, err := c.call(ctx, at, method, "/status")
	if err != nil {
		return h, err
	}
	defer res.Body.Close()

	err = json.NewDecoder(io.LimitReader(res.Body, maxStatus)).Decode(&h)

	return h, fault.Wrap(fault.Unavailable, err, "status of host %q", at.ID)
}

// StateOf is the state of a host that is alive.
func StateOf(h fleet.Host, drained bool) fleet.State {
	switch {
	case !drained:
		return fleet.Running
	case h.Total().Used > 0:
		return fleet.Draining
	default:
		return fleet.Drained
	}
}
