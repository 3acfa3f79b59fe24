package probe_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/catalog/probe"
)

// Callers at the same time do not cost an endpoint a probe each.
func TestCallersShareAProbe(t *testing.T) {
	t.Parallel()

	var asked atomic.Int32

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)

		_, _ = w.Write([]byte(`{"data":[{"id":"a"}]}`))
	}))
	t.Cleanup(srv.Close)

	lookup := func(name string) string { return map[string]string{"VLLM_URL": srv.URL, "VLLM_MODEL": "m"}[name] }
	shared := probe.NewShared(lookup, lookup)

	var callers sync.WaitGroup

	for range 20 {
		callers.Go(func() {
			all := shared.Endpoints(t.Context())
			if all[0].Name != "vllm" || all[0].Model != "m" || !all[0].Answers {
				t.Error(all)
			}
		})
	}

	callers.Wait()
	// one, unless the machine is so slow that the answer is old before all have it
	require.Less(t, asked.Load(), int32(20))
}
