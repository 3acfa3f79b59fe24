package opencode_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const patient = 5 * time.Minute

type result struct {
	st  agent.Status
	err error
}

// waiting follows a run in a goroutine until the run is done or fails.
func waiting(t *testing.T, r agent.Run) <-chan result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan result, 1)

	ended := make(chan struct{})
	go func() {
		defer close(ended)

		for {
			st, err := r.Next(ctx)
			if st.Done || err != nil {
				out <- result{st, err}
				return
			}
		}
	}()

	t.Cleanup(func() { cancel(); <-ended })

	return out
}

func open(t *testing.T, a *opencode.Agent, b *fakeSandbox) agent.Run {
	t.Helper()
	r, err := a.Open(t.Context(), agent.Env{Sandbox: b}, testJob())
	require.NoError(t, err)
	t.Cleanup(r.Close)

	return r
}

// startRun returns a run that has accepted its instruction.
func startRun(t *testing.T, a *opencode.Agent, b *fakeSandbox) agent.Run {
	t.Helper()
	r := open(t, a, b)
	st := next(t, r)
	require.True(t, st.Ready)
	require.False(t, st.Done)

	return r
}

func next(t *testing.T, r agent.Run) agent.Status {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()

	st, err := r.Next(ctx)
	require.NoError(t, err)

	return st
}

func attach(t *testing.T, a *opencode.Agent, b *fakeSandbox) agent.Run {
	t.Helper()
	r, err := a.Attach(t.Context(), agent.Env{Sandbox: b}, agent.Job{})
	require.NoError(t, err)
	t.Cleanup(r.Close)

	return r
}

func TestOpenIsIdempotent(t *testing.T) {
	t.Parallel()

	s, b, a := newFake(t)
	for range 3 {
		require.Equal(t, "ses_0", next(t, open(t, a, b)).SessionID)
	}

	require.Len(t, b.started, 1)
	require.Len(t, s.sessions, 1)
	require.Len(t, s.prompts, 1)
	require.Equal(t, "do \"it\"\n", s.prompts[0]["parts"].([]any)[0].(map[string]any)["text"])
}

// If OpenCode has announced its address but is not healthy yet, only its health is polled, not its log.
func TestAnnouncedBeforeItIsHealthy(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	s.unwell = 3

	startRun(t, a, b)
	require.JSONEq(t, "-1", fmt.Sprintf("%s", s.read(func() any { return s.unwell })))
	b.mu.Lock()
	defer b.mu.Unlock()

	require.Equal(t, 1, b.logs)
}

func TestAttachBeforeTheStart(t *testing.T) {
	t.Parallel()
	_, b, a := newFake(t)
	_, err := a.Attach(t.Context(), agent.Env{Sandbox: b}, agent.Job{})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

// Two sessions exist if the first request to create one succeeded although its reply was lost. Every worker
// uses the older session.
func TestOlderOfTwoSessionsIsTaken(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	s.sessions = []map[string]any{
		{"id": "ses_9", "title": "rollout", "time": map[string]int{"created": 7}},
		{"id": "ses_8", "title": "another", "time": map[string]int{"created": 1}},
		{"id": "ses_7", "title": "rollout", "time": map[string]int{"created": 5}},
	}
	// opened by the first worker
	open(t, a, b)
	require.Equal(t, "ses_7", next(t, open(t, a, b)).SessionID)
	require.Len(t, s.sessions, 3)
}

// The first request to create a session may succeed although its reply is lost. The retry finds that session.
func TestSessionWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	s.cutAnswers = 1
	r := open(t, a, b)
	require.False(t, next(t, r).Ready)
	require.Equal(t, "ses_0", next(t, r).SessionID)
	require.Len(t, s.sessions, 1)
	require.Len(t, s.prompts, 1)
}

// Tries to begin are apart, also with a server that fails at once.
func TestPausesBetweenTriesToBegin(t *testing.T) {
	t.Parallel()

	_, b, a := newFake(t)
	tries, server := 0, http.NewServeMux()

	server.HandleFunc("GET /global/health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"healthy": true})
	})
	server.HandleFunc("GET /session", func(w http.ResponseWriter, _ *http.Request) { answer(w, []any{}) })
	server.HandleFunc("POST /session", func(w http.ResponseWriter, _ *http.Request) {
		tries++

		w.WriteHeader(http.StatusInternalServerError)
	})

	b.answers = server

	synctest.Test(t, func(t *testing.T) {
		r := open(t, a, b)

		for range 2 {
			began := time.Now()
			st, err := r.Next(t.Context())
			require.NoError(t, err)
			require.False(t, st.Ready || st.Done)
			require.Positive(t, time.Since(began))
		}

		require.Equal(t, 2, tries)
	})
}

// A prompt that was accepted and lost is sent again with the same ids.
func TestLostPromptIsSentAgain(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	s.swallow = 1

	startRun(t, a, b)
	require.Len(t, s.prompts, 2)
	require.Equal(t, s.prompts[0], s.prompts[1])
}

// A session that is idle right after the prompt and has no reply is not done.
func TestIdleWithoutAnswerIsNotDone(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	done := waiting(t, startRun(t, a, b))
	require.Eventually(t, s.statusRequested(1), patient, time.Millisecond)

	s.events <- `{"type":"session.idle","properties":{"sessionID":"ses_0"}}`

	require.Eventually(t, s.statusRequested(2), patient, time.Millisecond)
	require.Empty(t, done)
	s.set(func() { s.busy = true; s.messages = append(s.messages, assistant(0, "", "")) })

	s.events <- `{"type":"session.idle","properties":{"sessionID":"ses_0"}}`

	require.Eventually(t, s.statusRequested(3), patient, time.Millisecond)
	require.Empty(t, done)
}

func TestOutcomes(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		last map[string]any
		want agent.Status
	}{
		"answer": {assistant(5000, "stop", ""), agent.Status{}},
		"length": {assistant(5000, "length", ""), agent.Status{}},
		"error":  {assistant(5000, "", "APIError"), agent.Status{ExitCode: 1, Error: "APIError: in its own words"}},
		"open error": {assistant(0, "", "UnknownError"), agent.Status{
			ExitCode: 1,
			Error:    "UnknownError: in its own words",
		}},
		"broken off": {assistant(0, "", ""), agent.Status{
			ExitCode: 1,
			Error:    "opencode stopped in the middle of an answer",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b, a := newFake(t)
			r := startRun(t, a, b)

			s.set(func() { s.messages = append(s.messages, c.last) })

			st := next(t, r)
			require.True(t, st.Done)
			require.Equal(t, c.want.ExitCode, st.ExitCode)
			require.Equal(t, c.want.Error, st.Error)
			require.Equal(t, st, next(t, r), "it stays done")
		})
	}
}

// A run that attaches after OpenCode has finished returns at once, because the agent's time may have ended, too.
func TestAttachAfterTheEnd(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	startRun(t, a, b)
	s.set(func() { s.messages = append(s.messages, assistant(5000, "stop", "")) })
	require.True(t, next(t, attach(t, a, b)).Answered())
	b.end(wire.Status{ExitCode: 1, Age: time.Hour, Ran: time.Minute})
	st := next(t, attach(t, a, b))
	require.True(t, st.Done)
	require.WithinDuration(t, time.Now().Add(-59*time.Minute), st.Ended, patient)
}

// Next returns on the event that ends the session. Events count as signs of life.
func TestNextReturnsOnTheEvent(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	r := startRun(t, a, b)

	s.set(func() { s.busy = true })

	done := waiting(t, r)
	// the first status was busy
	require.Eventually(t, s.statusRequested(1), patient, time.Millisecond)

	before := time.Now()

	s.events <- `{"type":"message.part.updated","properties":{"sessionID":"ses_0","part":{}}}`

	s.set(func() { s.busy = false; s.messages = append(s.messages, assistant(5000, "stop", "")) })

	s.events <- `{"type":"session.idle","properties":{"sessionID":"ses_0"}}`

	got := <-done
	require.NoError(t, got.err)
	require.True(t, got.st.Done)
	require.False(t, got.st.LastSign.Before(before))
}

// The run keeps one subscription and sends no requests while no event arrives.
func TestWaitingRunSendsNoRequests(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	r := startRun(t, a, b)

	s.set(func() { s.busy = true })

	done := waiting(t, r)

	<-s.opened

	for range 100 {
		s.events <- `{"type":"message.part.updated","properties":{"sessionID":"ses_0","part":{}}}`
	}

	s.set(func() { s.busy = false; s.messages = append(s.messages, assistant(5000, "stop", "")) })

	s.events <- `{"type":"session.idle","properties":{"sessionID":"ses_0"}}`

	require.True(t, (<-done).st.Done)
	require.Empty(t, s.opened, "one subscription")
	require.False(t, s.statusRequested(3)(), "it asks at the connection and at the end")
}

// The run detects an end that happened while the stream was broken once the stream is connected again.
func TestNextSurvivesABrokenStream(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	r := startRun(t, a, b)

	s.set(func() { s.busy = true })

	done := waiting(t, r)

	<-s.opened

	s.cut <- struct{}{}

	<-s.opened
	// connected, broken, connected
	require.Eventually(t, s.statusRequested(3), patient, time.Millisecond)
	s.set(func() { s.busy = false; s.messages = append(s.messages, assistant(5000, "stop", "")) })

	s.cut <- struct{}{}

	require.True(t, (<-done).st.Done)
}

// A process that listens on OpenCode's port may send an event that never ends. The event does not fill the
// memory of the worker.
func TestEndlessEventIsBounded(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	// before the run, which opens the stream
	s.endless.Store(true)

	r := startRun(t, a, b)

	s.set(func() { s.busy = true })

	done := waiting(t, r)

	<-s.opened
	// second connection: the first stream was abandoned
	<-s.opened
	s.endless.Store(false)
	s.set(func() { s.busy = false; s.messages = append(s.messages, assistant(5000, "stop", "")) })
	require.True(t, (<-done).st.Done)
}

func TestDeadProcessIsDoneWithItsLastOutput(t *testing.T) {
	t.Parallel()
	_, b, a := newFake(t)
	r := startRun(t, a, b)
	b.write("", "Segmentation fault at 0xdead\n")
	b.end(wire.Status{ExitCode: 137, Signal: "killed"})
	// opened and attached after the death, too
	for _, r := range []agent.Run{r, open(t, a, b), attach(t, a, b)} {
		st := next(t, r)
		require.True(t, st.Done)
		require.Equal(t, 137, st.ExitCode)
		require.Equal(
			t,
			"opencode was killed by signal killed; its stderr ends with: Segmentation fault at 0xdead",
			st.Error,
		)
	}

	require.Len(t, b.started, 1)
}

// A reply from the port of a killed agent is not accepted as the agent's.
func TestKilledAgentIsNeverCompleted(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	r := startRun(t, a, b)
	// a fake server took over the port
	b.keepListening = true
	b.end(wire.Status{ExitCode: 137, Signal: "killed"})
	s.set(func() { s.messages = append(s.messages, assistant(5000, "stop", "")) })

	st := next(t, r)
	require.True(t, st.Done)
	require.Equal(t, 137, st.ExitCode)
	require.Contains(t, st.Error, "was killed")
}

func TestLostSandboxIsAnError(t *testing.T) {
	t.Parallel()
	_, b, a := newFake(t)
	r := startRun(t, a, b)
	b.end(wire.Status{})
	b.lose()

	_, err := r.Next(t.Context())
	require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)
}

// Stop saves the transcript, because OpenCode holds it only in memory.
func TestStopKeepsTheTranscript(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	r := startRun(t, a, b)

	s.set(func() { s.busy = true; s.messages = append(s.messages, assistant(0, "", "")) })

	alive, err := r.Transcript(t.Context())
	require.NoError(t, err)
	require.Len(t, alive.Messages, 2)

	require.NoError(t, r.Stop(t.Context()))
	require.NoError(t, attach(t, a, b).Stop(t.Context()), "a second time")
	require.Equal(t, 1, s.aborted)
	kept, err := attach(t, a, b).Transcript(t.Context())
	require.NoError(t, err)
	require.Equal(t, alive, kept)

	b.beginToDie()

	kept, err = r.Transcript(t.Context())
	require.NoError(t, err, "the process is being killed")
	require.Equal(t, alive, kept)
}

func TestKilledWithoutStopHasNoTranscript(t *testing.T) {
	t.Parallel()
	_, b, a := newFake(t)
	r := startRun(t, a, b)
	b.end(wire.Status{ExitCode: 137})

	_, err := r.Transcript(t.Context())
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}
