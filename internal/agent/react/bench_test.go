package react_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/react"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// BenchmarkInFlight measures the memory of a ReACT rollout that waits for its model: the loop, the
// gateway's route and call, and both ends of the HTTP requests between them and the endpoint. It excludes
// sandbox, watch and Temporal. 1,000 rollouts are open.
func BenchmarkInFlight(b *testing.B) {
	const many = 1000

	for b.Loop() {
		w := newTestGateway(b, script)
		model, release := w.model, make(chan struct{})
		all := make(chan struct{})

		var (
			asked  atomic.Int64
			opened sync.WaitGroup
		)

		w.model = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == many {
				close(all)
			}

			<-release
			model.ServeHTTP(rw, r)
		})
		before := heap()

		runs := make([]agent.Run, many)
		for i := range runs {
			route := gatewayapi.Route{
				ID:        fmt.Sprintf("b%d.1", i),
				RolloutID: fmt.Sprintf("b%d", i),
				Attempt:   1,
				Capture:   true,
				Limits:    rollout.Limits{Call: patience},
				Model:     rollout.Model{BaseURL: w.url, Name: "m", Logprobs: true, TokenIDs: true},
			}
			require.NoError(b, w.client.Open(b.Context(), route))
			run, err := react.Agent{}.Open(b.Context(), agent.Env{
				Sandbox: &fakeSandbox{marks: map[string]wire.Status{}},
				Model:   w.client.Model(route.ID),
				Tools:   &tools{},
			}, job(&rollout.React{Continuation: rollout.ContinueMessages}))
			require.NoError(b, err)

			runs[i] = run
			_, err = run.Next(b.Context())
			require.NoError(b, err)
		}

		<-all
		b.ReportMetric(float64(heap()-before)/many/1024, "KiB/rollout")
		close(release)

		for _, run := range runs {
			opened.Go(func() {
				for st := (agent.Status{}); !st.Done; {
					var err error
					if st, err = run.Next(context.Background()); err != nil {
						b.Error(err)
						return
					}
				}

				run.Close()
			})
		}

		opened.Wait()
	}
}

// heap returns the live heap and the stacks in bytes.
func heap() int64 {
	runtime.GC()

	var m runtime.MemStats
	runtime.ReadMemStats(&m)

	return int64(m.HeapAlloc + m.StackInuse)
}
