package gateway_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireNoRetryWords checks an error against the patterns for which OpenCode retries a call regardless of the status.
func requireNoRetryWords(t *testing.T, body string) {
	t.Helper()

	for _, rule := range []string{
		`429|500|502|503|504|524`,
		`rate increased too quickly|rate limit|rate-limit|rate_limit|too many requests`,
		`overloaded|service unavailable|internal error|internal server error|server error|server_error|provider returned error`,
		`terminated|fetch failed|network[-_\s]error|connection error|connection refused|connection lost|socket hang up|econnrefused|econnreset|etimedout`,
		`\b(?:request|response|connection|network|stream|read) (?:timeout|timed out|time out)\b|timeout`,
		`try your request again|retry your request|resource exhausted|resource_exhausted`,
		`\btry again (?:later|in\b)|\b(?:currently|temporarily) at capacity\b`,
	} {
		require.NotRegexp(t, regexp.MustCompile("(?i)"+rule), body)
	}
}

func serveOn(t *testing.T, l net.Listener, h http.Handler) *httptest.Server {
	t.Helper()

	srv := httptest.NewUnstartedServer(h)
	require.NoError(t, srv.Listener.Close())
	srv.Listener = l
	srv.Start()

	return srv
}
