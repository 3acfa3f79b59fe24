package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/network/lostconn/lostconntest"
)

// Each endpoint is probed with its key, and its list names what is wrong with it.
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
		"ROLLOUTD_DATA": t.TempDir(),
		"VLLM_URL":      srv.URL, "VLLM_API_KEY": "sk-right",
		"OPENAI_BASE_URL": srv.URL + "/v1", "OPENAI_API_KEY": "sk-wrong",
		"SCRIPTED_URL": "http://" + lostconntest.Refusing(t) + "/v1",
	}
	code, out, errText := rolloutd(t.Context(), vars, "endpoints", "ls", "--json")
	require.Equal(t, 1, code, errText)

	var lines []endpointLine
	require.NoError(t, json.Unmarshal([]byte(out), &lines))

	probes := map[string]string{}
	for _, l := range lines {
		probes[l.Name] = l.Probe

		require.NotContains(t, out, "sk-")
	}

	require.Equal(t, "answers, models: 2", probes["vllm"])
	require.Equal(t, "answers 401 Unauthorized", probes["openai"])
	require.Regexp(t, `^unreachable \(.*connection refused\)$`, probes["scripted"])
	require.Equal(t, "not configured: HF_ROUTER_API_KEY is not set", probes["hf_router"])
	require.Contains(t, errText, "the state at the gateway is not known: no key in ")
}

// The scripted model at its default address is missing in most deployments, which is no fault.
func TestMissingScriptedModelIsNoFault(t *testing.T) {
	t.Parallel()

	code, out, errText := rolloutd(t.Context(), map[string]string{"ROLLOUTD_DATA": t.TempDir()}, "upstream")
	require.Zero(t, code, errText)
	// a scripted model of this machine may listen at the default address
	require.Regexp(t, `scripted +- +- +not configured: SCRIPTED_URL is not set|scripted .* answers, models: `, out)
}
