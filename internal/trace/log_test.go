package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

func record(turn int, id string) *trace.Record {
	return &trace.Record{
		Head: trace.Head{
			Turn:         turn,
			CallID:       id,
			Kind:         rollout.KindAgent,
			Lineage:      "ses_1",
			FinishReason: "stop",
			Usage:        rollout.Usage{Turns: 1, PromptTokens: 3, CompletionTokens: 2},
			Began:        time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
			Latency:      1500 * time.Millisecond,
			FirstByte:    time.Second,
			Status:       200,
			Tries:        1,
		},
		Request: []byte(
			`{"model":"m","messages":[{"role":"user","content":"<é>"}],"tools":[{"type":"function"}],"temperature":1.0,"seed":7}`,
		),
		Reply: []byte(
			"data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"ok\"},\"logprobs\":{\"content\":[{\"token\":\"o\",\"logprob\":-1},{\"token\":\"k\",\"logprob\":-0.5}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		),
		PromptTokenIDs: []int32{1, 2, math.MaxInt32},
		TokenIDs:       []int32{10, 11},
		Logprobs:       []float64{-1, -0.5},
	}
}

func openStore(t *testing.T, dir string, o trace.Options) *trace.Store {
	t.Helper()

	s, err := trace.Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	return s
}

// open returns a log in its own store.
func open(t *testing.T) *trace.Log {
	t.Helper()
	return openStore(t, t.TempDir(), trace.Options{}).Log("k")
}

func unsynced() trace.Options { return trace.Options{Sync: func(*os.File) error { return nil }} }

func TestWhatIsAppendedIsReadAfterReopening(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := openStore(t, dir, trace.Options{})
	l := store.Log("k")
	second, first := record(2, "b"), record(1, "a")
	require.NoError(t, l.Append(second))
	require.NoError(t, l.Append(first))
	require.NoError(t, l.Delivered(2))
	require.NoError(t, store.Close())

	store = openStore(t, dir, trace.Options{})
	l = store.Log("k")
	entries := l.Entries()
	require.Len(t, entries, 2)
	require.Equal(t, 1, entries[0].Turn)
	require.False(t, entries[0].Delivered)
	require.True(t, entries[1].Delivered)
	require.Equal(t, first.Usage, entries[0].Usage)
	got, err := l.Read(entries[1])
	require.NoError(t, err)
	require.Equal(t, second, got)
	require.Zero(t, store.Damaged())
}

// The prompt's ids are stored once and inserted into the reply when it is read.
func TestReplyIsKeptToTheByte(t *testing.T) {
	t.Parallel()

	for _, list := range []string{"[1,22,333]", "[1, 22, 333]", "[1 ,22,333 ]", "[]"} {
		raw := "data: {\"id\":1,\"prompt_token_ids\":" + list + ",\"choices\":[]}\n\ndata: [DONE]\n\n"
		s := reply.NewStream(&reply.Reply{})
		copy(s.Room(len(raw)), raw)
		require.NoError(t, s.Advance(len(raw)))

		r := record(1, "a")

		r.Reply, r.PromptTokenIDs, r.PromptAt = s.Raw(), append([]int32{}, s.PromptTokenIDs...), s.PromptAt
		l := open(t)
		require.NoError(t, l.Append(r))
		got, err := l.Read(l.Entries()[0])
		require.NoError(t, err)
		require.Equal(t, raw, string(got.Reply))
		require.Equal(t, r, got)

		alone, err := l.Reply(l.Entries()[0])
		require.NoError(t, err)
		require.Equal(t, raw, string(alone))
	}
}

func TestFindKnowsWholeCallsOnly(t *testing.T) {
	t.Parallel()
	l := open(t)
	broken := record(1, "a")
	broken.Broken = "aborted"
	require.NoError(t, l.Append(broken))
	_, ok := l.Find("a")
	require.False(t, ok)
	require.NoError(t, l.Append(record(2, "a")))
	e, ok := l.Find("a")
	require.True(t, ok)
	require.Equal(t, 2, e.Turn)
}

// Appends that wait for the disk at the same time share a sync, also across routes.
func TestConcurrentAppendsShareASync(t *testing.T) {
	t.Parallel()

	const n = 20

	var syncs atomic.Int64

	begun, release := make(chan struct{}), make(chan struct{})
	store := openStore(t, t.TempDir(), trace.Options{Sync: func(*os.File) error {
		if syncs.Add(1) == 1 {
			close(begun)
			<-release
		}

		return nil
	}})

	var (
		wg     sync.WaitGroup
		failed atomic.Int64
	)

	add := func(turn int) {
		wg.Go(func() {
			if store.Log(fmt.Sprint(turn%3)).Append(record(turn, "x")) != nil {
				failed.Add(1)
			}
		})
	}
	add(1)
	<-begun

	for i := range n - 1 {
		add(i + 2)
	}

	require.Eventually(t, func() bool {
		return len(store.Log("0").Entries())+len(store.Log("1").Entries())+len(store.Log("2").Entries()) == n
	}, 5*time.Minute, time.Millisecond)
	close(release)
	wg.Wait()
	require.Zero(t, failed.Load())
	require.Equal(t, int64(2), syncs.Load(), "one for the first, one for all that came meanwhile")
}

// Syncs keep a minimum distance, so that the records of many calls share one. A record after a pause does not wait.
func TestSyncsKeepAMinimumInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const agents, calls = 8, 5
		// only one sync runs at a time
		var at []time.Time

		store := openStore(t, t.TempDir(), trace.Options{Sync: func(*os.File) error {
			at = append(at, time.Now())
			return nil
		}})
		add := func(turn int) { assert.NoError(t, store.Log("k").Append(record(turn, fmt.Sprint(turn)))) }
		began := time.Now()

		add(0)
		require.Zero(t, time.Since(began))

		var wg sync.WaitGroup
		for n := range agents {
			wg.Go(func() {
				for call := range calls {
					add(1 + n*calls + call)
				}
			})
		}

		wg.Wait()

		for i := range at[1:] {
			require.GreaterOrEqual(t, at[i+1].Sub(at[i]), 2*time.Millisecond)
		}

		require.Less(t, len(at), 2*calls+2, "all agents' calls share a sync or two")

		time.Sleep(time.Second)

		began = time.Now()

		add(agents*calls + 1)
		require.Zero(t, time.Since(began))
	})
}

// After a failed sync the state of the disk is unknown: no later append counts as durable.
func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()

	broken := true
	store := openStore(t, t.TempDir(), trace.Options{Sync: func(*os.File) error {
		if broken {
			return errors.New("disk is gone")
		}

		return nil
	}})
	require.ErrorContains(t, store.Log("a").Append(record(1, "a")), "disk is gone")
	_, found := store.Log("a").Find("a")
	require.False(t, found, "a call must not be answered by it")

	broken = false

	require.ErrorContains(t, store.Log("b").Append(record(2, "b")), "disk is gone")
}

// Ids and log probabilities that are misaligned, or that no engine can have computed, are left out, and the
// turn says so.
func TestMisalignedTokensAreRefused(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name     string
		ids      []int32
		logprobs []float64
		wantIDs  []int32
		want     []float64
		flaw     string
	}{
		{"equal", []int32{1, 2}, []float64{-1, -2}, []int32{1, 2}, []float64{-1, -2}, ""},
		{"ids alone", []int32{1}, nil, []int32{1}, []float64{}, ""},
		{"logprobs alone", nil, []float64{-1}, []int32{}, []float64{-1}, ""},
		{"unequal", []int32{1, 2}, []float64{-1}, []int32{}, []float64{}, "2 token ids but 1 logprobs"},
		{"minus infinity", []int32{1, 2}, []float64{-1, math.Inf(-1)}, []int32{1, 2}, []float64{}, "logprob 2 of 2 is not a finite number"},
		{"no number", []int32{1, 2}, []float64{math.NaN(), -1}, []int32{1, 2}, []float64{}, "logprob 1 of 2"},
		{"infinity", []int32{1, 2}, []float64{-1, math.Inf(1)}, []int32{1, 2}, []float64{}, "logprob 2 of 2"},
		{"rounded", []int32{1, 2, 3}, []float64{0, 1e-7, -1e-9}, []int32{1, 2, 3}, []float64{0, 1e-7, -1e-9}, ""},
		{"above 0", []int32{1, 2}, []float64{-1, 0.5}, []int32{1, 2}, []float64{}, "logprob 2 of 2 is 0.5, which is above 0"},
		{"far above 0", []int32{1}, []float64{1e308}, []int32{1}, []float64{}, "which is above 0"},
		{"rare, before a temperature", []int32{1, 2}, []float64{-1, -700}, []int32{1, 2}, []float64{-1, -700}, ""},
		{"vLLM's and OpenAI's sentinel", []int32{1, 2}, []float64{-9999, -1}, []int32{1, 2}, []float64{}, "logprob 1 of 2 is -9999, with which no token is sampled"},
		{"the lowest float32", []int32{1}, []float64{-math.MaxFloat32}, []int32{1}, []float64{}, "with which no token is sampled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			r := record(1, "a")
			r.TokenIDs, r.Logprobs = tc.ids, tc.logprobs
			require.NoError(t, l.Append(r))
			turn := export(t, l)[0]
			require.Equal(t, tc.wantIDs, turn.CompletionTokenIDs)
			require.Equal(t, tc.want, turn.PerTokenLogps)

			if tc.flaw == "" {
				require.Empty(t, turn.Flaws)
			} else {
				require.Len(t, turn.Flaws, 1)
				require.Contains(t, turn.Flaws[0], tc.flaw)
			}
		})
	}
}

func export(t *testing.T, l *trace.Log) []rollout.Turn {
	t.Helper()

	var out bytes.Buffer
	require.NoError(t, trajectory.Export(l, &out, trajectory.ExportOptions{}))

	var turns []rollout.Turn

	for d := json.NewDecoder(&out); ; {
		var turn rollout.Turn

		err := d.Decode(&turn)
		if errors.Is(err, io.EOF) {
			return turns
		}

		require.NoError(t, err)

		turns = append(turns, turn)
	}
}

func TestFailedWriteIsReported(t *testing.T) {
	t.Parallel()
	store := openStore(t, t.TempDir(), trace.Options{})
	l := store.Log("k")
	require.NoError(t, l.Append(record(1, "a")))
	require.NoError(t, store.Close())
	require.Error(t, l.Append(record(2, "b")))
	require.Error(t, l.Delivered(1))
	require.Error(t, trajectory.Export(l, io.Discard, trajectory.ExportOptions{}))
	require.Len(t, l.Entries(), 1, "what was not written is not listed")
}
