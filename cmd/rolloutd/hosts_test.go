package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHosts(t *testing.T) {
	t.Parallel()

	asked := make(chan string, 3)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path

		host := `{"name":"gpu-1","state":"draining","version":"v1","backends":{"local":{"slots":4,"used":3,"warm":1}},"load":1.5,"cpus":2}`
		if r.Method == http.MethodGet {
			host = `{"hosts":[` + host + `]}`
		}

		_, _ = w.Write([]byte(host))
	}))
	t.Cleanup(srv.Close)
	code, out, errText := rolloutd(t.Context(), nil, "hosts", "--server", srv.URL)
	require.Zero(t, code, errText)
	require.Regexp(t, `gpu-1 +draining +3/4 +1 +1\.50/2 +v1 `, out)
	require.Equal(t, "GET /hosts", <-asked)

	for _, what := range []string{"drain", "resume"} {
		code, out, errText = rolloutd(t.Context(), nil, "hosts", what, "gpu-1", "--server", srv.URL)
		require.Zero(t, code, errText)
		require.Equal(t, "gpu-1 is draining: 3 of 4 slots in use\n", out)
		require.Equal(t, "POST /hosts/gpu-1/"+what, <-asked)
	}
}
