package listen_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/network/listen"
)

func TestAllowed(t *testing.T) {
	t.Parallel()

	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:8000": true, "localhost.": true, "env.localhost:8000": true,
		"127.0.0.1": true, "127.0.0.1:8000": true, "127.1.2.3:8000": true, "[::1]:8000": true, "[::1]": true,
		"10.0.0.5:8000": true,                     // the local address of the connection
		"gpu-1":         true, "GPU-1:8000": true, // configured

		"evil.test": false, "evil.test:8000": false, "localhost.evil.test": false, "127.0.0.1.evil.test": false,
		"10.0.0.6:8000": false, "169.254.169.254": false, "": false, "gpu-10": false, "notlocalhost": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{
			IP:   net.IPv4(10, 0, 0, 5),
			Port: 8000,
		}))
		require.Equal(t, want, listen.AllowedHost(r, []string{"gpu-1"}), host)
	}
}
