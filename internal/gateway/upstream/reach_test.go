package upstream_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/network/lostconn/lostconntest"
)

func TestReach(t *testing.T) {
	t.Parallel()

	up := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(up.Close)
	gone := "http://" + lostconntest.Refusing(t)
	client := upstream.New(nil, egress.Policy{}, 0, 0, nil, nil)

	for _, tc := range []struct{ name, baseURL, says string }{
		{"answers", up.URL, ""},
		{"refuses", gone, "connection refused"},
		{"one of two refuses", gone + "," + up.URL, ""},
		{"none: the agent makes no model calls", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			why := client.Reach(t.Context(), upstream.Spec{Engines: upstream.EnginesOf(tc.baseURL, "r1")})
			if tc.says == "" {
				require.Empty(t, why)
				return
			}

			require.Contains(t, why, tc.says)
		})
	}
}
