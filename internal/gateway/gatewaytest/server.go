// Package gatewaytest serves the admin API of gateways in tests and benchmarks.
package gatewaytest

import (
	"net/http"
	"net/http/httptest"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// NewServer serves h with the protocols of a gateway's client. The caller closes it.
func NewServer(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	gatewayapi.Accept(s.Config)
	s.Start()

	return s
}
