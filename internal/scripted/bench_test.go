package scripted_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/scripted"
)

// BenchmarkStream measures the cost of one streamed token with all optional fields.
func BenchmarkStream(b *testing.B) {
	const tokens = 2000

	scripts, err := scripted.Load(strings.NewReader("turns: [{filler: 2000}]"))
	require.NoError(b, err)

	s := scripted.New(scripted.Options{Scripts: scripts})
	body := `{"model":"m","stream":true,"logprobs":true,"return_token_ids":true,"messages":[{"role":"user","content":"go"}]}`

	for b.Loop() {
		w := discard{http.Header{}}
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
	}

	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/token")
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return io.Discard.Write(p) }
func (d discard) WriteHeader(int)             {}
