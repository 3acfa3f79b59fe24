package gateway_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// limitedDisk writes a limited number of bytes. At the last byte it acts as if its process was killed: the
// writing goroutine exits, and nothing more is written. A kill does not lose written bytes, so Sync does
// nothing.
type limitedDisk struct {
	died chan struct{}

	mu      sync.Mutex
	left    int
	written int
	ends    []int // written after each write
}

func newLimitedDisk(left int) *limitedDisk {
	return &limitedDisk{died: make(chan struct{}), left: left}
}

func (m *limitedDisk) options() trace.Options {
	return trace.Options{Write: m.write, Sync: func(*os.File) error { return nil }}
}

func (m *limitedDisk) write(f *os.File, parts [][]byte, at int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}

	if m.left == 0 {
		runtime.Goexit()
	}

	n, err := f.WriteAt(all[:min(len(all), m.left)], at)

	m.written += n
	m.ends = append(m.ends, m.written)

	if m.left -= n; m.left == 0 {
		close(m.died)
		runtime.Goexit()
	}

	return err
}

// session returns the agent's requests in order. The second one is streamed, and its prompt continues the first.
func session() []string {
	const begin, first, second = `{"model":"m","return_token_ids":true,"messages":[`, `{"role":"user","content":"1"}`, `,{"role":"user","content":"2"}`

	return []string{
		begin + first + `]}`,
		begin + first + second + `],"stream":true}`,
	}
}

// numbered returns the n-th reply, for the given request of the session. No two replies are equal.
func numbered(request string, n int64) string {
	if strings.Contains(request, `"2"}]`) {
		return fmt.Sprintf(
			`data: {"choices":[{"index":0,"delta":{"content":"%d"},"finish_reason":"stop","token_ids":[%d]}],"prompt_token_ids":[1,2]}`+"\n\ndata: [DONE]\n\n",
			n,
			n,
		)
	}

	return fmt.Sprintf(
		`{"choices":[{"index":0,"message":{"content":"%d"},"finish_reason":"stop","token_ids":[%d]}],"prompt_token_ids":[1]}`,
		n,
		n,
	)
}

// runSession gets a reply to every call of the session, restarts the gateway once more, and checks the records.
func (d *crashingGateway) runSession(t *testing.T) {
	t.Helper()

	var replies []string
	for i, body := range session() {
		replies = append(replies, d.ask(t, fmt.Sprint("call-", i), body))
	}

	d.restart(t)

	api := gatewaytest.NewServer(admin.New(d.server, admin.Options{Key: d.options.Key}).Handler())
	defer api.Close()

	h := &host{client: gatewayapi.NewClient(api.URL, d.options.Key)}
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, len(replies))

	for i, turn := range turns {
		require.Equal(t, fmt.Sprint("call-", i), turn.CallID)
		require.Equal(t, i+1, turn.Turn)
		require.Empty(t, turn.Broken)
		require.Len(t, turn.CompletionTokenIDs, 1)
		require.Equal(t, numbered(session()[i], int64(turn.CompletionTokenIDs[0])), replies[i])
	}

	require.Equal(t, len(replies), h.status(t, "r1.1").Turns)
}

// cuts returns the bytes at which a test kills the gateway: those at both ends of each write, where the form of a record
// and the order of writes decide, and a sample of those between, which are alike. TestCutAtEveryByte of internal/trace
// cuts a file at all of them.
func (m *limitedDisk) cuts() []int {
	const edge, step = 20, 37

	var (
		cuts  []int
		start int
	)

	for _, end := range m.ends {
		for n := start + 1; n <= end; n++ {
			if n-start <= edge || end-n < edge || n%step == 0 {
				cuts = append(cuts, n)
			}
		}

		start = end
	}

	return cuts
}

// A gateway that is killed at any byte of its records has every call on record completely and once, and the
// agent gets exactly the recorded replies.
func TestKilledAtAnyByte(t *testing.T) {
	t.Parallel()

	var replies atomic.Int64

	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		// the engine has buffered the body
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, numbered(string(body), replies.Add(1)))
	})
	h := newHost(t)
	r := h.route(e.URL)
	// fewer bytes, so fewer subtests
	r.Model.Name, r.Model.Logprobs, r.Model.TopLogprobs = "m", false, 0
	h.open(t, r)
	h.stop()
	lives := newCrashingGateway(t, h, math.MaxInt)
	disk := lives.disk
	lives.runSession(t)

	for _, n := range disk.cuts() {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			newCrashingGateway(t, h, n).runSession(t)
		})
	}
}
