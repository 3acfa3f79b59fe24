package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// The endpoints are those of the server, whatever the environment of the command has.
func TestEndpointsOfTheServer(t *testing.T) {
	t.Parallel()

	answers := map[string]string{
		"/endpoints": `{"endpoints":[
			{"endpoint":"vllm","url":"gpu-1:8000","probe":"answers, models: 1","answers":true},
			{"endpoint":"openai","url":"gpu-2:8000","probe":"unreachable (dial)","answers":false},
			{"endpoint":"scripted","probe":"not configured: SCRIPTED_URL is not set","answers":false}]}`,
		"/endpoints/vllm":     `{"in_flight":1,"queued":0}`,
		"/endpoints/openai":   `{"in_flight":0,"queued":0,"busy":"waits","unreachable":"gpu-2:8000 is unreachable since 12:00:00"}`,
		"/endpoints/scripted": `{"in_flight":0,"queued":0,"busy":"7 calls wait"}`,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	t.Cleanup(srv.Close)

	for _, command := range [][]string{{"upstream"}, {"endpoints", "ls"}} {
		vars := map[string]string{"VLLM_URL": "http://elsewhere:1"}
		code, out, errText := rolloutd(t.Context(), vars, append(command, "--server", srv.URL)...)
		require.Equal(t, 1, code, "one that is configured does not answer: %s", errText)
		require.Regexp(t, `vllm +gpu-1:8000 +open +answers, models: 1\n`, out)
		require.Regexp(t, `openai +gpu-2:8000 +gpu-2:8000 is unreachable since 12:00:00 +unreachable \(dial\)\n`, out)
		require.Regexp(t, `scripted +- +7 calls wait +not configured: SCRIPTED_URL is not set\n`, out)
	}
}

// Without a gateway the probes are shown, and why the rest is missing. An endpoint that is not configured is no fault.
func TestEndpointsWithoutAGateway(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/endpoints" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"detail":"gateway: connection refused","kind":"Unavailable"}`))

			return
		}

		_, _ = w.Write([]byte(`{"endpoints":[{"endpoint":"openai","probe":"not configured: OPENAI_API_KEY is not set"}]}`))
	}))
	t.Cleanup(srv.Close)

	code, out, errText := rolloutd(t.Context(), nil, "upstream", "ls", "--json", "--server", srv.URL)
	require.Zero(t, code, errText)
	require.JSONEq(t, `[{"endpoint":"openai","probe":"not configured: OPENAI_API_KEY is not set","answers":false}]`, out)
	require.Contains(t, errText, "gateway: connection refused")
}
