package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector receives spans by OTLP over HTTP, as a real collector does.
type collector struct {
	url string
	mu  sync.Mutex

	// all request bodies
	raw   []byte
	spans map[string]*tracepb.Span
}

func startCollector(t *testing.T) *collector {
	t.Helper()

	c := &collector{spans: map[string]*tracepb.Span{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)

		var got collectorpb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &got) != nil {
			http.Error(w, "no spans", http.StatusBadRequest)
			return
		}

		c.take(body, &got)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(srv.Close)
	c.url = srv.URL

	return c
}

func (c *collector) take(raw []byte, got *collectorpb.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.raw = append(c.raw, raw...)

	for _, r := range got.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			for _, span := range s.GetSpans() {
				c.spans[hex.EncodeToString(span.GetSpanId())] = span
			}
		}
	}
}

// env returns the environment of a process that exports its spans to the collector every 200 ms.
func (c *collector) env() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_BSP_SCHEDULE_DELAY=200"}
}

// all returns all request bodies received so far.
func (c *collector) all() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()

	return slices.Clone(c.raw)
}

// spanPath returns the span names of a trace from the span called name up to the client's span, which it
// excludes. It returns nil while a span is missing.
func (c *collector) spanPath(trace, name, client string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, span := range c.spans {
		if span.GetName() != name || hex.EncodeToString(span.GetTraceId()) != trace {
			continue
		}

		var names []string
		for span != nil {
			names = append(names, span.GetName())

			parent := hex.EncodeToString(span.GetParentSpanId())
			if parent == client {
				return names
			}

			span = c.spans[parent]
		}
	}

	return nil
}
