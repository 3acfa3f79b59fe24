package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"

	"github.com/rolloutd/rolloutd/internal/telemetry"
)

// The scrape has the metrics of rolloutd, of the process and of Temporal.
func TestScrapeShowsAllThreeKinds(t *testing.T) {
	t.Parallel()
	tel, err := telemetry.New(t.Context(), telemetry.Options{Service: "test", Version: "v9"})
	require.NoError(t, err)

	ours := prometheus.NewCounter(prometheus.CounterOpts{Name: "rolloutd_test_total"})
	tel.Registry().MustRegister(ours)
	ours.Inc()

	handler := tel.Temporal().WithTags(map[string]string{"namespace": "default"})
	handler.Counter("temporal_request").Inc(2)
	handler.Timer("temporal_request_latency").Record(time.Second)

	page := scrape(t, tel)
	require.Contains(t, page, "rolloutd_test_total 1")
	require.Contains(t, page, "go_goroutines")
	require.Regexp(t, `rolloutd_build_info\{go="go[^"]+",version="v9"\} 1`, page)
	require.Regexp(t, `temporal_request_total\{namespace="default"\} 2`, page)
	require.Contains(t, page, "temporal_request_latency")
	require.NoError(t, tel.Shutdown(t.Context()))
}

// Shutdown exports the spans that have ended. The test is not parallel, because otel's providers are global
// to the process.
func TestShutdownFlushesSpansToTheCollector(t *testing.T) {
	got := make(chan string, 1)

	collector := httptest.NewServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }),
	)
	defer collector.Close()

	tel, err := telemetry.New(t.Context(), telemetry.Options{Service: "test", Endpoint: collector.URL + "/"})
	require.NoError(t, err)
	tel.Install()

	_, span := otel.Tracer("test").Start(t.Context(), "one")
	require.True(t, span.IsRecording())
	span.End()
	require.NoError(t, tel.Shutdown(t.Context()))
	require.Equal(t, "/v1/traces", <-got)
}

// An unreachable collector is reported to OnError and stops nothing.
func TestCollectorThatIsDownStopsNothing(t *testing.T) {
	t.Parallel()
	_, err := telemetry.New(t.Context(), telemetry.Options{Service: "test", Endpoint: "http://127.0.0.1:1"})
	require.NoError(t, err)
}

func scrape(t *testing.T, tel *telemetry.Telemetry) string {
	t.Helper()

	rec := httptest.NewRecorder()
	tel.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, rec.Code)

	return rec.Body.String()
}
