package envserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// blockedEngine is an engine whose traces and transcripts are readable only after let is closed. It counts the readers.
type blockedEngine struct {
	*fake
	let           chan struct{}
	reading, most atomic.Int64
}

func (h *blockedEngine) read() {
	n := h.reading.Add(1)
	for most := h.most.Load(); n > most && !h.most.CompareAndSwap(most, n); most = h.most.Load() {
	}

	<-h.let
	h.reading.Add(-1)
}

func (h *blockedEngine) Open(ctx context.Context, id, name string) (io.ReadCloser, error) {
	left, err := h.fake.Open(ctx, id, name)
	if err != nil {
		return nil, err
	}

	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(readerFunc(func([]byte) (int, error) { h.read(); return 0, io.EOF }), left), left}, nil
}

func (h *blockedEngine) Messages(ctx context.Context, id string) (rollout.Transcript, error) {
	h.read()
	return h.fake.Messages(ctx, id)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// The server builds only as many exports at once as fit the memory, of all kinds together; the others wait.
func TestExportsShareMemory(t *testing.T) {
	t.Parallel()

	h := &blockedEngine{fake: newFake(), let: make(chan struct{})}
	r := start(t, func(o *envserver.Options) { o.Rollouts, o.ExportMemory = h, 512<<20 })
	h.left = exported(t, session())
	body, err := json.Marshal(task("r1", "x"))
	require.NoError(t, err)

	status, _, out := r.do("POST", "/rollouts", string(body))
	require.Equal(t, http.StatusAccepted, status, out)
	h.said("r1", "hello")

	answered := make(chan string, 100)

	var asked sync.WaitGroup

	for _, path := range []string{"/rollouts/r1/trace?format=npz", "/rollouts/r1/messages", "/rollouts/r1/trajectory"} {
		for range 6 {
			asked.Go(func() {
				status, _, out := r.do("GET", path, "")
				answered <- fmt.Sprintf("%d %.0s", status, out)
			})
		}
	}

	asked.Go(func() {
		answered <- strings.Repeat("200 ", min(1, len(r.dial("/ws").about("get_messages", "r1"))))
	})
	r.eventually(func() bool { return h.reading.Load() >= 2 }, "as many as there is memory for are read")
	close(h.let)
	asked.Wait()
	close(answered)

	for answer := range answered {
		require.Equal(t, "200 ", answer)
	}

	require.EqualValues(t, 2, h.most.Load())
}
