package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/isolationprobe"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// maxProbeAnswer bounds an answer of the probe's sandbox, in bytes.
const maxProbeAnswer = 1 << 20

// runProbe creates a sandbox and runs the probe in it as the agent's user.
func (d *Driver) runProbe(ctx context.Context, id, hostAddr string) ([]isolationprobe.Finding, error) {
	if err := d.create(ctx, id, probeSpec()); err != nil {
		return nil, err
	}

	c := newControl(d.path(id))
	defer c.client.CloseIdleConnections()

	process := wire.Process{Argv: []string{sandboxdMount, "probe", hostAddr}, Dir: wire.AgentHome}
	if _, err := c.do(ctx, http.MethodPut, "/v1/processes/probe", process); err != nil {
		return nil, err
	}

	ended, err := c.do(ctx, http.MethodGet, "/v1/processes/probe?wait="+startTime.String(), nil)
	if err != nil {
		return nil, err
	}

	var st wire.Status
	if err := json.Unmarshal(ended, &st); err != nil {
		return nil, err
	}

	out, err := c.do(ctx, http.MethodGet, fmt.Sprintf("/v1/processes/probe/log?stream=stdout&limit=%d", maxProbeAnswer),
		nil)
	if err != nil {
		return nil, err
	}

	var findings []isolationprobe.Finding
	if err := json.Unmarshal(out, &findings); err != nil || len(findings) == 0 || st.Running || st.ExitCode != 0 {
		return nil, errors.Join(err, fmt.Errorf("the probe ended with %d and wrote %.200q", st.ExitCode, out))
	}

	return findings, nil
}

// control is a client for the part of sandboxd's API that the probe needs. The full client is package
// sandbox, which drivers must not import.
type control struct{ client *http.Client }

func newControl(dir string) control {
	return control{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, dir) },
	}}}
}

// do sends a request and returns the body of a successful answer.
func (c control) do(ctx context.Context, method, path string, in any) ([]byte, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}

	req, err := http.NewRequestWithContext(ctx, method, "http://sandboxd"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}

	res, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()

	out, err := io.ReadAll(io.LimitReader(res.Body, maxProbeAnswer))
	if err != nil {
		return nil, err
	}

	if res.StatusCode != http.StatusOK {
		return nil, fault.New(fault.Unavailable, "sandboxd answers %s to %s %s: %.200s", res.Status, method, path, out)
	}

	return out, nil
}
