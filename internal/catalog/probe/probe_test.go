package probe_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/catalog/probe"
	"github.com/rolloutd/rolloutd/internal/network/lostconn/lostconntest"
)

// Each endpoint is probed with its key, and the answer says what is wrong with it.
func TestEndpointsAreProbed(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		_, _ = w.Write([]byte(`{"data":[{"id":"a"},{"id":"b"}]}`))
	}))
	t.Cleanup(srv.Close)

	vars := map[string]string{
		"VLLM_URL": srv.URL, "VLLM_API_KEY": "sk-right",
		"OPENAI_BASE_URL": srv.URL + "/v1", "OPENAI_API_KEY": "sk-wrong",
		"SCRIPTED_URL": "http://" + lostconntest.Refusing(t) + "/v1",
	}
	set := func(name string) string { return vars[name] }
	probes := map[string]string{}

	for _, s := range probe.All(t.Context(), set, set) {
		probes[s.Name] = s.Probe

		require.NotContains(t, s.URL+s.Probe, "sk-")
		require.Equal(t, s.Name == "vllm", s.Answers)
	}

	require.Equal(t, "answers, models: 2", probes["vllm"])
	require.Equal(t, "answers 401 Unauthorized", probes["openai"])
	require.Regexp(t, `^unreachable \(.*connection refused\)$`, probes["scripted"])
	require.Equal(t, "not configured: HF_ROUTER_API_KEY is not set", probes["hf_router"])
}

// The scripted model at its default address is missing in most deployments, which is no fault.
func TestMissingScriptedModelIsNoFault(t *testing.T) {
	t.Parallel()

	lookup := map[string]string{"SCRIPTED_URL": "http://" + lostconntest.Refusing(t) + "/v1"}
	nothing := func(string) string { return "" }

	for _, s := range probe.All(t.Context(), func(name string) string { return lookup[name] }, nothing) {
		require.Contains(t, s.Probe, "not configured: ")
		require.Empty(t, s.URL)
	}
}
