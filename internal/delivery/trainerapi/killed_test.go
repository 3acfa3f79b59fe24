package trainerapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
	"github.com/rolloutd/rolloutd/internal/delivery/trainerapi"
)

// fileVariable makes the test binary serve the queue in the named file until it is killed.
const fileVariable = "ROLLOUTD_TEST_QUEUE"

// noSelfKillVariable keeps that server from killing itself.
const noSelfKillVariable = "ROLLOUTD_TEST_QUEUE_LIVES"

func TestMain(m *testing.M) {
	if path := os.Getenv(fileVariable); path != "" {
		serveUntilKilled(path)
	}

	os.Exit(m.Run())
}

func serveUntilKilled(path string) {
	q, err := queue.Open(queue.Options{Path: path})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	handler := trainerapi.New(trainerapi.Options{Queue: q, Log: slog.New(slog.DiscardHandler)})
	if os.Getenv(noSelfKillVariable) == "" {
		handler = killBeforeReply(handler)
	}

	srv := httptest.NewServer(handler)
	fmt.Println(srv.URL)
	// ends with the test unless the process is killed first
	_, _ = io.Copy(io.Discard, os.Stdin)

	os.Exit(0)
}

// killBeforeReply kills the process once, after it has handled the 25th request and before it answers. The
// client cannot know the result of this request.
func killBeforeReply(next http.Handler) http.Handler {
	var n atomic.Int64

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) != 25 {
			next.ServeHTTP(w, r)
			return
		}

		next.ServeHTTP(httptest.NewRecorder(), r)
		// a signal to the own process cannot fail
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	})
}

// restartingServer is a server that is killed and restarted.
type restartingServer struct {
	t     *testing.T
	path  string
	mu    sync.Mutex
	url   string
	cmd   *exec.Cmd
	stdin io.Closer

	// closed when the process has ended
	dead chan struct{}

	// one for each request that was sent, answered or not
	ticks chan struct{}

	// the server does not kill itself
	noSelfKill bool
}

// requestSent records that a request was sent. Ticks during a restart count as one.
func (m *restartingServer) requestSent() {
	select {
	case m.ticks <- struct{}{}:
	default:
	}
}

// start starts a new server process on the file.
func (m *restartingServer) start() {
	cmd := exec.Command(os.Args[0])

	cmd.Env = append(os.Environ(), fileVariable+"="+m.path)
	if m.noSelfKill {
		cmd.Env = append(cmd.Env, noSelfKillVariable+"=1")
	}

	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(m.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(m.t, err)
	require.NoError(m.t, cmd.Start())

	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(m.t, err, "the server did not start")

	m.url, m.cmd, m.stdin, m.dead = strings.TrimSpace(url), cmd, stdin, make(chan struct{})
	go func(dead chan<- struct{}) {
		defer close(dead)
		// an error means that it was killed
		_ = cmd.Wait()
	}(m.dead)
}

// restart kills the server at any point of its work and starts it again.
func (m *restartingServer) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.kill()
	m.start()
}

func (m *restartingServer) kill() {
	// an error means that it has ended
	_ = m.cmd.Process.Kill()
	<-m.dead
}

// startIfDead starts the server again if it is dead.
func (m *restartingServer) startIfDead() {
	m.mu.Lock()
	defer m.mu.Unlock()

	select {
	case <-m.dead:
		m.start()
	default:
	}
}

func (m *restartingServer) at() string {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.url
}

// until repeats a request until it is answered with 200.
func (m *restartingServer) until(ctx context.Context, method, path, body, key string) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

	for {
		req, err := http.NewRequestWithContext(ctx, method, m.at()+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}

		req.Header.Set("Idempotency-Key", key)

		req = req.WithContext(
			httptrace.WithClientTrace(
				ctx,
				&httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { m.requestSent() }},
			),
		)
		if resp, err := client.Do(req); err == nil {
			text, err := io.ReadAll(resp.Body)
			// the body was read
			_ = resp.Body.Close()
			if err == nil && resp.StatusCode == http.StatusOK {
				return text, nil
			}

			if err == nil && resp.StatusCode < http.StatusInternalServerError {
				return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
			}
		}

		if ctx.Err() != nil {
			return nil, ctx.Err()
		}

		m.startIfDead()
	}
}

// The server is killed repeatedly at arbitrary points. Each group is trained on once, oldest first.
func TestKilled(t *testing.T) {
	t.Parallel()

	groups, kills := 200, 8
	if n, err := strconv.Atoi(os.Getenv("ROLLOUTD_TEST_GROUPS")); err == nil {
		groups, kills = n, n/50
	}

	m := &restartingServer{t: t, ticks: make(chan struct{}, 1), path: filepath.Join(t.TempDir(), "queue.db")}
	m.start()
	t.Cleanup(func() { m.kill(); _ = m.stdin.Close() })

	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()

	_, err := m.until(ctx, "POST", "/register", fmt.Sprintf(registration, 2), "")
	require.NoError(t, err)

	var (
		all               sync.WaitGroup
		sendErr, trainErr error
		trained           []int
	)

	all.Go(func() { sendErr = m.send(ctx, groups) })
	all.Go(func() { trained, trainErr = m.train(ctx, groups) })

	done := make(chan struct{})
	go func() { defer close(done); all.Wait() }()

	for every, n := max(2*groups/kills, 1), 0; ; {
		select {
		case <-done:
			require.NoError(t, sendErr)
			require.NoError(t, trainErr)

			var want []int
			for mark := range groups {
				want = append(want, mark)
			}

			require.Equal(t, want, trained)

			return
		case <-m.ticks:
			if n++; n%every == 0 {
				m.restart()
			}
		}
	}
}

func (m *restartingServer) send(ctx context.Context, groups int) error {
	for mark := range groups {
		if _, err := m.until(ctx, "POST", "/scored_data", groupOf(2, mark, ""), "key-"+strconv.Itoa(mark)); err != nil {
			return err
		}
	}

	return nil
}

// train takes batches until all groups are trained on. It remembers the last batch, as a trainer does in
// its checkpoint.
func (m *restartingServer) train(ctx context.Context, groups int) (trained []int, err error) {
	last := 0

	for len(trained) < groups {
		text, err := m.until(ctx, "GET", "/batch?ack=explicit", "", "")
		if err != nil {
			return trained, err
		}

		var b struct {
			ID    int                        `json:"batch_id"`
			Batch []struct{ Tokens [][]int } `json:"batch"`
		}
		if err := json.Unmarshal(text, &b); err != nil {
			return trained, err
		}

		if b.Batch == nil {
			continue
		}

		if b.ID != last {
			for _, g := range b.Batch {
				trained = append(trained, g.Tokens[0][2])
			}

			last = b.ID
		}

		if _, err := m.until(ctx, "POST", fmt.Sprintf("/batch/%d/ack", b.ID), "", ""); err != nil {
			return trained, err
		}
	}

	return trained, nil
}
