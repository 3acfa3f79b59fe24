package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that starts again, or that Temporal is away from, does not end the wait for a delivery.
func TestDeliverWaitsForTheServer(t *testing.T) {
	t.Parallel()

	var looks atomic.Int32

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"sink":"s","group_id":"g","state":"pending"}`

		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		case r.URL.Path != "/groups/g/deliveries/s": // no id begins with that of the group
			answer = `{}`
		default:
			if looks.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}

			answer = `{"sink":"s","group_id":"g","state":"delivered"}`
		}

		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(srv.Close)

	code, out, errText := rolloutd(t.Context(), map[string]string{"ROLLOUTD_SERVER": srv.URL}, "deliver", "g", "--sink", "s")
	require.Zero(t, code, errText)
	require.Contains(t, out, `"state":"delivered"`)
	require.EqualValues(t, 2, looks.Load())
}
