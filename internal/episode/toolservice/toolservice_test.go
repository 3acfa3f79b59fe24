package toolservice_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// counted is a set of tools that counts its runs. The tool "wait" returns when release is closed, and
// "broken" fails once.
type counted struct {
	mu sync.Mutex

	// by call id
	runs map[string]int

	// signaled when a run begins
	changed *sync.Cond
	release chan struct{}
}

func newCounted() *counted {
	c := &counted{runs: map[string]int{}, release: make(chan struct{})}
	c.changed = sync.NewCond(&c.mu)

	return c
}

// begins waits until the call with that id runs.
func (c *counted) begins(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for c.runs[id] == 0 {
		c.changed.Wait()
	}
}

func (c *counted) Definitions() []tool.Definition { return nil }

func (c *counted) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	c.mu.Lock()
	c.runs[call.ID]++
	n := c.runs[call.ID]
	c.changed.Broadcast()
	c.mu.Unlock()

	switch {
	case call.Name == "wait":
		select {
		case <-c.release:
		case <-ctx.Done():
			return tool.Result{}, fault.New(fault.Unavailable, "the worker stops")
		}
	case call.Name == "broken" && n == 1:
		return tool.Result{}, fault.New(fault.Unavailable, "no answer")
	}

	return tool.Result{Content: call.ID + " " + string(call.Arguments), Data: json.RawMessage(`{"exit_code":0}`)}, nil
}

func (c *counted) of(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.runs[id]
}

func open(t *testing.T, dir string, o toolservice.Options) (*toolservice.Table, *toolservice.Episode, func()) {
	t.Helper()

	table := toolservice.NewTable(dir)
	o.ID = "r.1"
	e, closeIt, err := table.Open(o)
	require.NoError(t, err)

	var once sync.Once

	end := func() { once.Do(func() { require.NoError(t, closeIt()) }) }
	t.Cleanup(end)

	return table, e, end
}

func call(id, name, arguments string) episode.Call {
	return episode.Call{ID: id, Tool: name, Arguments: json.RawMessage(arguments)}
}

// reported records reports, once for each key, as an event log does.
type reported struct {
	mu   sync.Mutex
	keys map[string]bool
	all  []string
}

func (r *reported) add(key, event string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if !r.keys[key] {
		r.keys[key], r.all = true, append(r.all, event)
	}
}

func (r *reported) ToolStart(key string, c rollout.ToolEvent, input json.RawMessage) {
	r.add("start "+key, fmt.Sprintf("start %s %s %s", c.CallID, c.Tool, input))
}

func (r *reported) ToolEnd(key string, c rollout.ToolEvent, output, failed string) {
	r.add("end "+key, fmt.Sprintf("end %s %s %s %s%s", c.CallID, c.Tool, c.Status, output, failed))
}

// Each call is reported before it runs and before it is answered. A repeated call is reported once. The
// next worker reports what a dead worker did not.
func TestCallsAreReported(t *testing.T) {
	t.Parallel()
	dir, tools, first := t.TempDir(), newCounted(), &reported{keys: map[string]bool{}}

	_, e, end := open(t, dir, toolservice.Options{Tools: tools, Reporter: first})
	for range 2 {
		_, err := e.Call(t.Context(), call("a", "bash", `{ "command": "ls" }`))
		require.NoError(t, err)
	}

	_, err := e.Call(t.Context(), call("b", "broken", ""))
	require.Error(t, err)
	_, err = e.Call(t.Context(), call("b", "broken", ""))
	require.NoError(t, err)

	want := []string{
		`start a bash {"command":"ls"}`,
		`end a bash completed a { "command": "ls" }`,
		"start b broken {}",
		"end b broken completed b ",
	}
	require.Equal(t, want, first.all)
	end()

	next := &reported{keys: map[string]bool{"start episode/a": true}}
	open(t, dir, toolservice.Options{Tools: tools, Reporter: next})
	require.Equal(t, want[1:], next.all)
}

// slowReader blocks at the first report until it is released.
type slowReader struct{ reads, release chan struct{} }

func (r slowReader) ToolStart(string, rollout.ToolEvent, json.RawMessage) {
	close(r.reads)
	<-r.release
}

func (slowReader) ToolEnd(string, rollout.ToolEvent, string, string) {}

// An episode whose log is being read delays no other one.
func TestOpenWhileAnotherLogIsRead(t *testing.T) {
	t.Parallel()
	dir, tools := t.TempDir(), newCounted()

	_, e, end := open(t, dir, toolservice.Options{Tools: tools})
	_, err := e.Call(t.Context(), call("a", "bash", "{}"))
	require.NoError(t, err)
	end()

	table := toolservice.NewTable(dir)
	r := slowReader{reads: make(chan struct{}), release: make(chan struct{})}
	read := make(chan func() error, 1)

	go func() {
		_, closeIt, _ := table.Open(toolservice.Options{ID: "r.1", Tools: tools, Reporter: r})
		read <- closeIt
	}()

	<-r.reads

	others := make(chan error, 3)

	go func() {
		_, _, err := table.Open(toolservice.Options{ID: "r.1", Tools: tools})
		others <- err

		_, closeIt, err := table.Open(toolservice.Options{ID: "r.2", Tools: tools})
		others <- err

		_, err = table.Get(t.Context(), "r.2", 0)
		others <- errors.Join(err, closeIt())
	}()

	for _, want := range []fault.Kind{fault.Conflict, "", ""} {
		select {
		case err := <-others:
			require.Equal(t, want, fault.KindOf(err), err)
		case <-time.After(10 * time.Second):
			close(r.release)
			t.Fatal("it waits for the log of another episode")
		}
	}

	close(r.release)
	require.NoError(t, (<-read)())
}

// A repeated call runs once, in this worker and in the next worker of the host.
func TestCallRunsOnce(t *testing.T) {
	t.Parallel()
	dir, tools := t.TempDir(), newCounted()
	_, e, end := open(t, dir, toolservice.Options{Tools: tools})
	first, err := e.Call(t.Context(), call("a", "bash", `{"command": "ls"}`))
	require.NoError(t, err)
	require.Equal(t, "a {\"command\": \"ls\"}", first.Content)
	require.Equal(t, 1, first.Steps)
	again, err := e.Call(t.Context(), call("a", "bash", `{ "command":"ls" }`))
	require.NoError(t, err)
	require.Equal(t, first, again)
	_, err = e.Call(t.Context(), call("a", "bash", `{"command":"rm"}`))
	require.True(t, fault.Is(err, fault.Conflict), err)
	_, err = e.Call(t.Context(), call("", "bash", ""))
	require.True(t, fault.Is(err, fault.Invalid), err)
	end()

	_, e, _ = open(t, dir, toolservice.Options{Tools: tools})
	again, err = e.Call(t.Context(), call("a", "bash", `{"command":"ls"}`))
	require.NoError(t, err)
	require.Equal(t, first, again)

	begin := time.Now()
	second, err := e.Call(t.Context(), call("b", "search", ""))
	require.NoError(t, err)
	require.Equal(t, 2, second.Steps)
	require.Equal(t, []string{"bash", "search"}, e.Status().ToolsUsed)
	require.Equal(t, 1, tools.of("a"))

	status := e.Status()
	require.NotNil(t, status.LastAt)
	require.False(t, status.LastAt.Before(begin), "it is of the last call")
}

// A call that failed because of infrastructure does not count as a step, and its id can be used again.
func TestFailedCallMayBeRepeated(t *testing.T) {
	t.Parallel()

	tools := newCounted()
	_, e, _ := open(t, t.TempDir(), toolservice.Options{Tools: tools, MaxSteps: 1})
	_, err := e.Call(t.Context(), call("a", "broken", ""))
	require.True(t, fault.Is(err, fault.Unavailable), err)
	require.Zero(t, e.Status().Steps)
	a, err := e.Call(t.Context(), call("a", "broken", ""))
	require.NoError(t, err)
	require.Equal(t, 1, a.Steps)
	require.Contains(t, a.Ended, "maximum of 1 steps")
	_, err = e.Call(t.Context(), call("b", "bash", ""))
	require.ErrorContains(t, err, "the episode has ended")
	require.Zero(t, tools.of("b"))
	again, err := e.Call(t.Context(), call("a", "broken", ""))
	require.NoError(t, err)
	require.Equal(t, a, again)
}

// Calls run concurrently, and a caller that disconnects does not end its call.
func TestCallsRunConcurrently(t *testing.T) {
	t.Parallel()

	tools := newCounted()
	_, e, _ := open(t, t.TempDir(), toolservice.Options{Tools: tools})
	gone, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)

	go func() {
		_, err := e.Call(gone, call("slow", "wait", ""))
		left <- err
	}()

	require.Eventually(t, func() bool { return tools.of("slow") == 1 }, 5*time.Minute, time.Millisecond)
	require.Zero(t, e.IdleSince())
	_, err := e.Call(t.Context(), call("fast", "bash", ""))
	require.NoError(t, err)
	leave()
	require.Error(t, <-left)
	close(tools.release)

	a, err := e.Call(t.Context(), call("slow", "wait", ""))
	require.NoError(t, err)
	require.Equal(t, 2, a.Steps)
	require.Equal(t, 1, tools.of("slow"))
	require.NotZero(t, e.IdleSince())
}

// A crash may leave an incomplete line. Its call was not answered, so the line is removed.
func TestUnfinishedLineIsCutOff(t *testing.T) {
	t.Parallel()
	dir, tools := t.TempDir(), newCounted()
	_, e, end := open(t, dir, toolservice.Options{Tools: tools})
	_, err := e.Call(t.Context(), call("a", "bash", ""))
	require.NoError(t, err)
	end()

	path := filepath.Join(dir, "r.1.jsonl")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(whole, `{"kind":"call","step":2,"id":"b","to`...), 0o600))
	_, e, _ = open(t, dir, toolservice.Options{Tools: tools})
	b, err := e.Call(t.Context(), call("b", "bash", ""))
	require.NoError(t, err)
	require.Equal(t, 2, b.Steps)

	var steps []string

	require.NoError(t, e.Steps(func(s episode.Step) { steps = append(steps, fmt.Sprint(s.Step, s.ID)) }))
	require.Equal(t, []string{"1a", "2b"}, steps)
}

// A log that is older than the sandbox belongs to another sandbox and is dropped. A log that is continued
// is kept, whatever the clock shows.
func TestEarlierLogIsDropped(t *testing.T) {
	t.Parallel()
	dir, tools := t.TempDir(), newCounted()
	_, e, end := open(t, dir, toolservice.Options{Tools: tools})
	require.NoError(t, e.Submit(episode.Call{}))
	end()
	table, e, end := open(t, dir, toolservice.Options{Tools: tools})
	require.NotEmpty(t, e.Status().Ended)
	end()
	require.NoError(t, table.ForgetEarlier("r.1", time.Now().Add(-time.Hour)))
	_, err := table.Log("r.1")
	require.NoError(t, err, "it is the sandbox's own")
	require.NoError(t, table.ForgetEarlier("r.1", time.Now().Add(time.Hour)))
	_, e, _ = open(t, dir, toolservice.Options{Tools: tools})
	require.Empty(t, e.Status().Ended)
}

// The client that joined last owns the episode, even after a restart.
func TestJoin(t *testing.T) {
	t.Parallel()
	dir, tools := t.TempDir(), newCounted()
	_, e, end := open(t, dir, toolservice.Options{Tools: tools})
	_, err := e.Join("one")
	require.NoError(t, err)
	_, err = e.Join("two")
	require.NoError(t, err)
	end()

	_, e, _ = open(t, dir, toolservice.Options{Tools: tools})
	c := call("a", "bash", "")
	c.Client = "one"
	_, err = e.Call(t.Context(), c)
	require.ErrorContains(t, err, "another client has joined the episode")
	require.True(t, fault.Is(e.Submit(c), fault.Conflict))
	c.Client = "two"
	_, err = e.Call(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, e.Submit(c))
	require.NoError(t, e.Submit(c))
	why, submitted := e.Ended()
	require.True(t, submitted)
	require.Contains(t, why, "submitted")
}

// Over HTTP the service waits for an episode, requires the token, and reports that a sandbox takes no calls.
func TestService(t *testing.T) {
	t.Parallel()
	table := toolservice.NewTable(t.TempDir())
	srv := httptest.NewServer(table.Handler("secret", slog.New(slog.DiscardHandler)))
	t.Cleanup(srv.Close)
	c := episode.NewClient(srv.URL, "secret", http.DefaultClient)
	_, err := c.Status(t.Context(), "r.1", 0)
	require.True(t, fault.Is(err, fault.Unavailable), err)

	waited := make(chan error, 1)

	go func() {
		for {
			_, err := c.Status(t.Context(), "r.1", 10*time.Second)
			if !fault.Is(err, fault.Unavailable) {
				waited <- err
				return
			}
		}
	}()

	_, closeIt, err := table.Open(toolservice.Options{ID: "r.1", Tools: newCounted()})
	require.NoError(t, err)
	require.NoError(t, <-waited)
	a, err := c.Call(t.Context(), "r.1", call("a", "bash", `{"command":"ls"}`))
	require.NoError(t, err)
	require.Equal(t, 1, a.Steps)
	require.NoError(t, c.Submit(t.Context(), "r.1", episode.Call{}))
	_, err = c.Call(t.Context(), "r.1", call("b", "bash", ""))
	require.True(t, fault.Is(err, fault.Conflict), err)
	_, err = episode.NewClient(srv.URL, "wrong", http.DefaultClient).Status(t.Context(), "r.1", 0)
	require.True(t, fault.Is(err, fault.Unauthorized), err)
	require.NoError(t, closeIt())

	log, err := table.Log("r.1")
	require.NoError(t, err)
	require.NoError(t, log.Close())
	require.NoError(t, table.Forget("r.1"))
	_, err = table.Log("r.1")
	require.True(t, fault.Is(err, fault.NotFound), err)
}

// A held episode takes no calls until its launch is marked.
func TestHeldEpisodeTakesNoCalls(t *testing.T) {
	t.Parallel()
	table := toolservice.NewTable(t.TempDir())
	open, closeIt, err := table.Open(toolservice.Options{ID: "r.1", Tools: newCounted(), WaitForAccept: true})
	require.NoError(t, err)
	_, err = table.Get(t.Context(), "r.1", 0)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	_, _, err = table.Open(toolservice.Options{ID: "r.1", Tools: newCounted()})
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)

	found := make(chan error, 1)

	go func() {
		_, err := table.Get(t.Context(), "r.1", time.Minute)
		found <- err
	}()

	open.Accept()
	open.Accept()
	require.NoError(t, <-found)
	require.NoError(t, closeIt())
}
