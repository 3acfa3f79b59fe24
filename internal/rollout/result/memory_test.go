package result_test

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/rollout/result"
)

// Six calls with the largest request that the gateway accepts are read into a result within 256 MiB. The
// result is small, because clients read it as a whole.
func TestLargeRequestsStayOutOfTheResult(t *testing.T) {
	// collects often, so that little of the heap is garbage
	defer debug.SetGCPercent(debug.SetGCPercent(10))

	const calls, size = 6, 32 << 20

	peak := &heapPeak{Reader: lines(calls, size)}

	var res rollout.Result
	require.NoError(t, result.ReadTurns(peak, &res))
	require.Len(t, res.ProxyTurns, calls)
	require.Equal(t, []string{"messages"}, res.ProxyTurns[0].Request["omitted"])
	require.Less(t, peak.most, uint64(256<<20))
	runtime.GC()
	require.Less(t, heap(), peak.most, "no turn keeps its request")
	require.Less(t, heap(), uint64(96<<20))
}

// lines returns a trace with the given number of calls.
func lines(calls, size int) io.Reader {
	var all []io.Reader
	for n := range calls {
		all = append(
			all,
			strings.NewReader(
				fmt.Sprintf(
					`{"turn":%d,"kind":"agent","request":{"model":"m","messages":[{"role":"user","content":"`,
					n+1,
				),
			),
			io.LimitReader(xs{}, int64(size)),
			strings.NewReader(`"}]},"response":null}`+"\n"),
		)
	}

	return io.MultiReader(all...)
}

type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}

	return len(p), nil
}

// heapPeak measures the heap during reads, at most once per MiB.
type heapPeak struct {
	io.Reader
	read int
	most uint64
}

func (h *heapPeak) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if h.read += n; h.read > 1<<20 || err != nil {
		h.read = 0
		h.most = max(h.most, heap())
	}

	return n, err
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)

	return m.HeapAlloc
}
