package envserver_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// fakeHosts is a fleet of one host.
type fakeHosts struct {
	mu   sync.Mutex
	host fleet.Host
}

func (f *fakeHosts) Hosts(context.Context) (fleet.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	return fleet.Page{Hosts: []fleet.Host{f.host}}, nil
}

func (f *fakeHosts) Drain(_ context.Context, name string, on bool) (fleet.Host, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if name != f.host.Name {
		return fleet.Host{}, fault.New(fault.NotFound, "no host %q", name)
	}

	f.host.State = fleet.Running
	if on {
		f.host.State = fleet.Drained
	}

	return f.host, nil
}

// fakeEndpoints are an endpoint that answers from the second probe on, and one that nobody has configured.
type fakeEndpoints struct {
	mu     sync.Mutex
	probes int
}

func (f *fakeEndpoints) Endpoints(context.Context) []catalog.Status {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.probes++

	vllm := catalog.Status{Name: "vllm", URL: "http://vllm.test:8000/v1", Model: "Qwen/Qwen3.5-4B", Probe: "unreachable (dial <tcp>)"}
	if f.probes > 1 {
		vllm.Probe, vllm.Answers = "answers, models: 2", true
	}

	return []catalog.Status{
		vllm, {Name: "openai", Probe: "not configured: OPENAI_API_KEY is not set"},
		{Name: "hf_router", URL: "https://router.test/v1", Probe: "answers, models: 1", Answers: true},
	}
}

// Load knows the one that answers; the gateway of the other one does not.
func (f *fakeEndpoints) Load(_ context.Context, name string) (catalog.Load, error) {
	if name != "vllm" {
		return catalog.Load{}, fault.New(fault.Unavailable, "gateway: connection refused")
	}

	return catalog.Load{
		Version: "step-12", InFlight: 7, Queued: 2, Busy: "no room <yet>", Faults: map[string]int{"lost_tool_call": 3},
		Audit: &catalog.Audit{
			Turns: 32, Marked: 1, Skipped: map[string]int{"older weights": 4},
			Versions: []catalog.AuditedVersion{
				{Version: "step-11", Turns: 30, Tokens: 4096, MeanAbs: 0.0123, K1: -0.0004, K3: 0.0002},
				{Version: "step-12", Turns: 2, Tokens: 90, MeanAbs: 0.31, K1: 0.12, K3: 0.1},
			},
		},
	}, nil
}

// Only operators see where the model endpoints are, and why one does not answer.
func TestEndpointsOverREST(t *testing.T) {
	t.Parallel()

	r := shared(t)
	first := func(token string) any {
		status, _, out := r.do("GET", "/endpoints", "", "Authorization", token)
		require.Equal(t, http.StatusOK, status, out)

		return object(t, out)["endpoints"].([]any)[0]
	}

	require.Equal(t, map[string]any{
		"endpoint": "vllm", "url": "http://vllm.test:8000/v1", "model": "Qwen/Qwen3.5-4B", "answers": false,
		"probe": "unreachable (dial <tcp>)",
	}, first(admin))
	require.Equal(t, map[string]any{
		"endpoint": "vllm", "model": "Qwen/Qwen3.5-4B", "answers": true, "probe": "answers",
	}, first(alice))
}

// Operators see the calls and the audit of an endpoint, or that no gateway tells of it.
func TestEndpointOverREST(t *testing.T) {
	t.Parallel()

	r := shared(t)
	status, _, out := r.do("GET", "/endpoints/vllm", "", "Authorization", alice)
	require.Equal(t, http.StatusForbidden, status, out)

	status, _, out = r.do("GET", "/endpoints/vllm", "", "Authorization", admin)
	require.Equal(t, http.StatusOK, status, out)
	require.EqualValues(t, 7, object(t, out)["in_flight"])
	require.EqualValues(t, 1, object(t, out)["audit"].(map[string]any)["marked"])

	status, _, out = r.do("GET", "/endpoints/hf_router", "", "Authorization", admin)
	require.Equal(t, http.StatusServiceUnavailable, status, out)
}

// Operators list and drain hosts. Clients see none.
func TestHostsOverREST(t *testing.T) {
	t.Parallel()

	r := shared(t, func(o *envserver.Options) {
		o.Fleet = &fakeHosts{host: fleet.Host{Name: "gpu-1", State: fleet.Running}}
	})
	for _, request := range [][2]string{{"GET", "/hosts"}, {"POST", "/hosts/gpu-1/drain"}, {"POST", "/hosts/gpu-1/resume"}} {
		status, _, out := r.do(request[0], request[1], "", "Authorization", alice)
		require.Equal(t, http.StatusForbidden, status, out)
	}

	_, _, out := r.do("GET", "/hosts", "", "Authorization", admin)
	require.Equal(t, "running", object(t, out)["hosts"].([]any)[0].(map[string]any)["state"])

	for path, want := range map[string]string{"drain": "drained", "resume": "running"} {
		_, _, out = r.do("POST", "/hosts/gpu-1/"+path, "", "Authorization", admin)
		require.Equal(t, want, object(t, out)["state"])
	}

	status, _, _ := r.do("POST", "/hosts/gpu-2/drain", "", "Authorization", admin)
	require.Equal(t, http.StatusNotFound, status)
}
