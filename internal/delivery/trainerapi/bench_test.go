package trainerapi_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
	"github.com/rolloutd/rolloutd/internal/delivery/trainerapi"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// large returns a group of sequences with the given number of tokens, a quarter of them sampled.
func large(sequences, tokens int) []byte {
	random := rand.New(rand.NewPCG(1, 2))

	var ids, masks, logprobs, scores []string

	for range sequences {
		var i, m, l []string

		for range tokens {
			id := fmt.Sprint(random.IntN(150_000))

			i = append(i, id)
			if random.IntN(4) == 0 {
				m, l = append(m, id), append(l, fmt.Sprint(-random.ExpFloat64()))
			} else {
				m, l = append(m, "-100"), append(l, "1.0")
			}
		}

		join := func(all []string) string { return "[" + strings.Join(all, ",") + "]" }
		ids, masks, logprobs, scores = append(ids, join(i)), append(masks, join(m)), append(
			logprobs,
			join(l),
		), append(scores, "0.5")
	}

	lists := func(all []string) string { return "[" + strings.Join(all, ",") + "]" }

	return fmt.Appendf(
		nil,
		`{"tokens":%s,"masks":%s,"scores":%s,"inference_logprobs":%s,"generation_params":{"temperature":0.7}}`,
		lists(ids),
		lists(masks),
		lists(scores),
		lists(logprobs),
	)
}

// BenchmarkScoredData posts synced groups of 8 sequences of 8,192 tokens. cpu-ms/op is the CPU time of the
// process, user and system.
func BenchmarkScoredData(b *testing.B) {
	plain := large(8, 8192)

	var zipped bytes.Buffer

	z := gzip.NewWriter(&zipped)
	_, err := z.Write(plain)
	require.NoError(b, err)
	require.NoError(b, z.Close())

	for name, body := range map[string][]byte{"plain": plain, "gzip": zipped.Bytes()} {
		b.Run(name, func(b *testing.B) {
			q, err := queue.Open(queue.Options{Path: filepath.Join(b.TempDir(), "q")})
			require.NoError(b, err)

			defer q.Close()

			h := trainerapi.New(trainerapi.Options{Queue: q, Log: slog.New(slog.DiscardHandler)})

			b.SetBytes(int64(len(body)))
			before := cpuTime(b)

			n := 0
			for b.Loop() {
				n++

				req := httptest.NewRequest(http.MethodPost, "/scored_data", bytes.NewReader(body))
				if name == "gzip" {
					req.Header.Set("Content-Encoding", "gzip")
				}

				req.Header.Set("Idempotency-Key", fmt.Sprint(n))

				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				require.Equal(b, http.StatusOK, w.Code, w.Body)
			}

			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(n), "cpu-ms/op")
		})
	}
}

// TestSpeedComparedWithAtropos posts one group of 8 sequences of 8,192 tokens repeatedly to a server
// process of ours, which syncs each group, and to Atropos' own server, which keeps it in memory. It logs
// the CPU time of the processes, user and system.
func TestSpeedComparedWithAtropos(t *testing.T) {
	if os.Getenv("ROLLOUTD_TEST_BESIDE") == "" {
		t.Skip("measures only when ROLLOUTD_TEST_BESIDE is set")
	}

	ours := &restartingServer{
		t:          t,
		ticks:      make(chan struct{}, 1),
		path:       filepath.Join(t.TempDir(), "queue.db"),
		noSelfKill: true,
	}
	ours.start()
	t.Cleanup(func() { ours.kill(); _ = ours.stdin.Close() })
	theirs := pyclient.StartAtropos(t)
	body := string(large(8, 8192))

	for range 2 {
		for _, s := range []struct {
			name, url string
			pid       int
		}{{"rolloutd", ours.url, ours.cmd.Process.Pid}, {"Atropos", theirs.URL, theirs.Pid}} {
			const posts = 40

			pyclient.DoRequest(t, "POST", s.url+"/register", fmt.Sprintf(registration, 8))

			before, begun := cpuOf(t, s.pid), time.Now()
			for i := range posts {
				status, text := pyclient.DoRequest(t, "POST", s.url+"/scored_data", body)
				require.Equal(t, http.StatusOK, status, "%d: %s", i, text)
			}

			t.Logf(
				"%s: %.2f ms CPU, %.1f ms wall per group",
				s.name,
				(cpuOf(t, s.pid)-before).Seconds()*1000/posts,
				time.Since(begun).Seconds()*1000/posts,
			)
		}
	}
}

// cpuOf returns the CPU time of a process, in steps of 10 ms.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()

	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)

	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))

	var user, system int64

	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	require.NoError(t, err)

	return time.Duration(user+system) * 10 * time.Millisecond
}

func cpuTime(t testing.TB) time.Duration {
	t.Helper()

	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))

	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
