package trainer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/delivery/queue"
	"github.com/rolloutd/rolloutd/internal/delivery/sinktest"
	"github.com/rolloutd/rolloutd/internal/delivery/trainer"
	"github.com/rolloutd/rolloutd/internal/delivery/trainerapi"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// cuttingProxy is a proxy between a sink and its trainer. It cuts the reply to the next send after the
// trainer has received the group.
type cuttingProxy struct {
	*httptest.Server
	cut atomic.Bool
}

func newCuttingProxy(t *testing.T, target string) *cuttingProxy {
	t.Helper()

	u, err := url.Parse(target)
	require.NoError(t, err)

	proxy := httputil.NewSingleHostReverseProxy(u)
	c := &cuttingProxy{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && (r.URL.Path == "/scored_data" || r.URL.Path == "/queues/q/groups") &&
			c.cut.Swap(false) {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}

		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)

	return c
}

// memory keeps notes in memory.
type memory struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (m *memory) Load(_ context.Context, name string, v any) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	data, ok := m.all[name]
	if !ok {
		return fault.New(fault.NotFound, "no note")
	}

	return json.Unmarshal(data, v)
}

func (m *memory) Save(_ context.Context, name string, v any) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	data, err := json.Marshal(v)
	m.all[name] = data

	return err
}

const registration = `{"wandb_group":"g","wandb_project":"p","batch_size":2,"max_token_len":512,"checkpoint_dir":"/c","save_checkpoint_interval":10,"starting_step":3,"num_steps":100}`

// begin registers a trainer with batches of one group, and starts it.
func begin(t *testing.T, url string) {
	t.Helper()
	status, text := pyclient.DoRequest(t, "POST", url+"/register", registration)
	require.Equal(t, http.StatusOK, status, text)
	pyclient.DoRequest(t, "GET", url+"/batch", "")
}

// scores returns the first score of each available batch, in the order in which the batches are served.
func scores(t *testing.T, url string) (out []float64) {
	t.Helper()

	for {
		var answer struct {
			Batch []struct {
				Scores           []float64
				Tokens           [][]int
				GenerationParams map[string]float64 `json:"generation_params"`
			}
		}

		_, text := pyclient.DoRequest(t, "GET", url+"/batch", "")
		require.NoError(t, json.Unmarshal([]byte(text), &answer), text)

		if answer.Batch == nil {
			return out
		}

		require.Len(t, answer.Batch, 1)
		require.Len(t, answer.Batch[0].Tokens, sinktest.Size)
		require.InDelta(t, 0.7, answer.Batch[0].GenerationParams["temperature"], 0)
		out = append(out, answer.Batch[0].Scores[0])
	}
}

func options(url string) trainer.Options { return trainer.Options{URL: url, GroupSize: sinktest.Size} }

func atropos(url string, notes trainer.Notes, log *slog.Logger) *trainer.Atropos {
	return trainer.NewAtropos(options(url), trainer.Env{Name: "e", MaxTokens: 512}, notes, log)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newNotes() *memory { return &memory{all: map[string][]byte{}} }

// Atropos' own server forms all possible batches at once and serves the last one first.
func TestAtropos(t *testing.T) {
	t.Parallel()
	server := pyclient.StartAtropos(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		pyclient.DoRequest(t, "GET", server.URL+"/reset_data", "")
		begin(t, server.URL)
		c, notes := newCuttingProxy(t, server.URL), newNotes()

		var got []float64

		return sinktest.Subject{
			Sink:    atropos(c.URL, notes, discard()),
			Restart: func(*testing.T) delivery.Sink { return atropos(c.URL, notes, discard()) },
			Received: func(t *testing.T) []float64 {
				more := scores(t, server.URL)
				slices.Reverse(more)
				got = append(got, more...)

				return got
			},
			BreakNext: func() { c.cut.Store(true) },
		}
	})
}

func ownServer(t *testing.T) string {
	t.Helper()
	q, err := queue.Open(queue.Options{Path: filepath.Join(t.TempDir(), "q")})
	require.NoError(t, err)

	srv := httptest.NewServer(trainerapi.New(trainerapi.Options{Queue: q, Log: discard()}))

	t.Cleanup(func() {
		srv.Close()
		require.NoError(t, q.Close())
	})

	return srv.URL
}

func TestOwn(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		at := ownServer(t)
		begin(t, at)
		c := newCuttingProxy(t, at)

		var got []float64

		return sinktest.Subject{
			Sink:    trainer.NewAPI(options(c.URL)),
			Restart: func(*testing.T) delivery.Sink { return trainer.NewAPI(options(c.URL)) },
			Received: func(t *testing.T) []float64 {
				got = append(got, scores(t, at)...)
				return got
			},
			BreakNext: func() { c.cut.Store(true) },
		}
	})
}

// A batch that the trainer has not acknowledged counts in the step and as queued.
func TestOwnStatus(t *testing.T) {
	t.Parallel()
	at := ownServer(t)
	begin(t, at)

	sink := trainer.NewAPI(options(at))
	for n := 1; n <= 2; n++ {
		require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(n)))
	}

	pyclient.DoRequest(t, "GET", at+"/batch?ack=explicit", "")
	st, err := sink.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, delivery.Status{
		Ready:      true,
		Step:       4,
		TotalSteps: 100,
		BatchSize:  2,
		Queued:     4,
		Training:   2,
		Waiting:    "the trainer has enough batches",
	}, st)
}

// A client of Atropos' own server also works with our server.
func TestAtroposAtOurServer(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		at := ownServer(t)
		begin(t, at)
		c, notes := newCuttingProxy(t, at), newNotes()

		var got []float64

		return sinktest.Subject{
			Sink:    atropos(c.URL, notes, discard()),
			Restart: func(*testing.T) delivery.Sink { return atropos(c.URL, notes, discard()) },
			Received: func(t *testing.T) []float64 {
				got = append(got, scores(t, at)...)
				return got
			},
			BreakNext: func() { c.cut.Store(true) },
		}
	})
}

func TestPull(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		at := ownServer(t)
		c := newCuttingProxy(t, at)

		return sinktest.Subject{
			Sink:      trainer.NewPull(options(c.URL), "q", 100),
			Restart:   func(*testing.T) delivery.Sink { return trainer.NewPull(options(c.URL), "q", 100) },
			Received:  func(t *testing.T) []float64 { return pulled(t, at) },
			BreakNext: func() { c.cut.Store(true) },
		}
	})
}

// pulled returns the rewards of the first rollouts of the waiting groups.
func pulled(t *testing.T, url string) (out []float64) {
	t.Helper()

	var answer struct {
		Groups []struct {
			Group struct {
				GroupID  string `json:"group_id"`
				Rollouts []struct {
					Reward    float64
					Sequences []struct {
						TokenIDs []int `json:"token_ids"`
					}
				}
			}
		}
	}

	_, text := pyclient.DoRequest(t, "GET", url+"/queues/q/groups?max=100", "")
	require.NoError(t, json.Unmarshal([]byte(text), &answer), text)

	for _, g := range answer.Groups {
		require.Len(t, g.Group.Rollouts, sinktest.Size)
		require.Len(t, g.Group.Rollouts[0].Sequences[0].TokenIDs, 6)
		out = append(out, g.Group.Rollouts[0].Reward)
	}

	return out
}

// The trainer has not registered, then has not started, then has enough batches. Then it is reset and starts again.
func TestRestartOfAnAtroposTrainer(t *testing.T) {
	t.Parallel()
	server := pyclient.StartAtropos(t)
	notes := newNotes()
	sink := atropos(server.URL, notes, discard())
	waits := func(why string) {
		t.Helper()
		st, err := sink.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, delivery.Status{Waiting: why}, st)
		require.True(t, fault.Is(sink.Deliver(t.Context(), sinktest.Group(1)), fault.Unavailable))
	}
	waits("the trainer has not started")
	pyclient.DoRequest(t, "POST", server.URL+"/register", registration)
	waits("the trainer has not started")
	begin(t, server.URL)
	st, err := sink.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, delivery.Status{Ready: true, Room: 2, Step: 3, TotalSteps: 100, BatchSize: 2}, st)

	for n := 1; n <= 2; n++ {
		require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(n)))
	}

	st, err = sink.Status(t.Context())
	require.NoError(t, err)
	require.Zero(t, st.Room)
	require.Equal(t, "the trainer has enough batches", st.Waiting)
	require.Equal(t, 4, st.Queued)

	pyclient.DoRequest(t, "GET", server.URL+"/reset_data", "")
	waits2 := sink.Deliver(t.Context(), sinktest.Group(3))
	require.True(
		t,
		fault.Is(waits2, fault.Unavailable),
		"a group that comes now would make the server unusable: %v",
		waits2,
	)
	begin(t, server.URL)
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(3)))
	require.Equal(t, []float64{3}, scores(t, server.URL))
	require.NoError(t, sink.Disconnect(t.Context()))
	require.NoError(t, sink.Disconnect(t.Context()), "twice is as once")
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(4)))

	address := server.URL[len("http://"):]
	server.Stop()

	_, err = sink.Status(t.Context())
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	server = pyclient.StartAtroposAt(t, address)
	begin(t, server.URL)
	// our process was restarted, too
	sink = atropos(server.URL, notes, discard())
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(5)))
	require.Equal(t, []float64{5}, scores(t, server.URL))
}

// If another environment has sent a group since a reply was lost, the sink cannot know whether its own
// group arrived. It logs a warning.
func TestUncertainDeliveryToAtropos(t *testing.T) {
	t.Parallel()
	server := pyclient.StartAtropos(t)
	begin(t, server.URL)
	c := newCuttingProxy(t, server.URL)

	var log bytes.Buffer

	sink := atropos(c.URL, newNotes(), slog.New(slog.NewTextHandler(&log, nil)))
	other := atropos(server.URL, newNotes(), discard())

	c.cut.Store(true)
	require.Error(t, sink.Deliver(t.Context(), sinktest.Group(1)))
	require.NoError(t, other.Deliver(t.Context(), sinktest.Group(2)))
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(1)))
	require.Contains(t, log.String(), "group is sent again and may be doubled")
	require.ElementsMatch(t, []float64{1, 1, 2}, scores(t, server.URL))
}

// A delivery that is canceled while a group is sent ends after the answer: without it nobody could say whether the group
// arrived.
func TestCanceledDeliveryToAtropos(t *testing.T) {
	t.Parallel()
	at := ownServer(t)
	begin(t, at)

	u, err := url.Parse(at)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	proxy := httputil.NewSingleHostReverseProxy(u)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/scored_data" {
			cancel()
		}

		// the request does not end with its client
		proxy.ServeHTTP(w, r.WithContext(t.Context()))
	}))
	t.Cleanup(srv.Close)

	notes := newNotes()
	require.NoError(t, atropos(srv.URL, notes, discard()).Deliver(ctx, sinktest.Group(1)))
	require.Error(t, ctx.Err())

	sink := atropos(srv.URL, notes, discard())
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(2)))
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(1)), "the caller did not learn that it ended")
	require.Equal(t, []float64{1, 2}, scores(t, at))
}

// An unexpected reply of a trainer is reported. The send is repeated unless the trainer refuses the group itself.
func TestUnexpectedReplies(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		status int
		body   string
		kind   fault.Kind
	}{
		"html": {200, "<html>", fault.Unavailable},
		"422":  {422, `{"detail":"no"}`, fault.UpstreamRefused},
		"500":  {500, "oops", fault.Internal},
		"503":  {503, "", fault.Unavailable},
		"401":  {401, "", fault.Unauthorized},
		"429":  {429, "", fault.Unavailable},
		"404":  {404, "", fault.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			defer srv.Close()

			for _, sink := range []delivery.Sink{trainer.NewAPI(options(srv.URL)), trainer.NewPull(options(srv.URL), "q", 0), atropos(srv.URL, newNotes(), discard())} {
				err := sink.Deliver(t.Context(), sinktest.Group(1))
				require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
			}
		})
	}
}

// A trainer that never answers blocks a delivery until its deadline. The delivery is retried.
func TestTrainerNeverAnswers(t *testing.T) {
	t.Parallel()

	arrived, over := make(chan struct{}, 10), make(chan struct{})

	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// the server detects a disconnect only after it has read the body
		_, _ = io.Copy(io.Discard, r.Body)

		arrived <- struct{}{}

		<-over
	}))
	defer srv.Close()
	defer close(over)

	for _, sink := range []delivery.Sink{trainer.NewAPI(options(srv.URL)), trainer.NewPull(options(srv.URL), "q", 0), atropos(srv.URL, newNotes(), discard())} {
		ctx, cancel := context.WithCancel(t.Context())
		// cancels once the request has arrived
		go func() { <-arrived; cancel() }()

		err := sink.Deliver(ctx, sinktest.Group(1))
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	}
}

func TestGroupOfAnotherSize(t *testing.T) {
	t.Parallel()

	g := sinktest.Group(1)
	g.Data = g.Data[:1]
	err := atropos("http://127.0.0.1:1", newNotes(), discard()).Deliver(t.Context(), g)
	require.True(t, fault.Is(err, fault.Conflict))
	require.ErrorContains(t, err, "group g1 has 1 sequences: the trainer takes groups of 2")
}
