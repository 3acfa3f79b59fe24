package opencode_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const patient = 20 * time.Second

type result struct {
	st  agent.Status
	err error
}

// waiting runs wait in the background of a test.
func waiting(t *testing.T, wait func(context.Context) (agent.Status, error)) <-chan result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan result, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		st, err := wait(ctx)
		out <- result{st, err}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return out
}

func TestStartIsOnce(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	for range 3 {
		st, err := a.StartIn(t.Context(), b, testJob())
		require.NoError(t, err)
		require.Equal(t, "ses_0", st.SessionID)
		require.False(t, st.Done)
	}
	require.Len(t, b.started, 1)
	require.Len(t, s.sessions, 1)
	require.Len(t, s.prompts, 1)
	require.Equal(t, "do \"it\"\n", s.prompts[0]["parts"].([]any)[0].(map[string]any)["text"])
}

// Two sessions, because a first request to make one had worked although its answer was lost: everybody takes the older.
func TestOlderOfTwoSessionsIsTaken(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	s.sessions = []map[string]any{
		{"id": "ses_9", "title": "rollout", "time": map[string]int{"created": 7}},
		{"id": "ses_8", "title": "somebody else's", "time": map[string]int{"created": 1}},
		{"id": "ses_7", "title": "rollout", "time": map[string]int{"created": 5}},
	}
	st, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	require.Equal(t, "ses_7", st.SessionID)
	require.Len(t, s.sessions, 3)
}

// A prompt that was taken and lost is sent again, under the same ids.
func TestLostPromptIsSentAgain(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	s.swallow = 1
	_, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	require.Len(t, s.prompts, 2)
	require.Equal(t, s.prompts[0], s.prompts[1])
}

// Right after the prompt the session is idle, has no answer, and is not done.
func TestIdleWithoutAnswerIsNotDone(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	_, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	st, err := a.WaitIn(t.Context(), b, testJob(), 50*time.Millisecond)
	require.NoError(t, err)
	require.False(t, st.Done)

	s.set(func() { s.busy = true; s.messages = append(s.messages, assistant(5000, "tool-calls", "")) })
	st, err = a.WaitIn(t.Context(), b, testJob(), 50*time.Millisecond)
	require.NoError(t, err)
	require.False(t, st.Done)
	require.Equal(t, time.UnixMilli(5000), st.LastSign)
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last map[string]any
		want agent.Status
	}{
		"answer":     {assistant(5000, "stop", ""), agent.Status{}},
		"length":     {assistant(5000, "length", ""), agent.Status{}},
		"error":      {assistant(5000, "", "APIError"), agent.Status{ExitCode: 1, Error: "APIError: in its own words"}},
		"open error": {assistant(0, "", "UnknownError"), agent.Status{ExitCode: 1, Error: "UnknownError: in its own words"}},
		"broken off": {assistant(0, "", ""), agent.Status{ExitCode: 1, Error: "opencode stopped in the middle of an answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b, a := newFake(t)
			_, err := a.StartIn(t.Context(), b, testJob())
			require.NoError(t, err)
			s.set(func() { s.messages = append(s.messages, c.last) })
			st, err := a.WaitIn(t.Context(), b, testJob(), patient)
			require.NoError(t, err)
			require.True(t, st.Done)
			require.Equal(t, c.want.ExitCode, st.ExitCode)
			require.Equal(t, c.want.Error, st.Error)
		})
	}
}

// The end is learnt from the event, and events are signs of life.
func TestWaitReturnsOnTheEvent(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	_, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	s.set(func() { s.busy = true })
	done := waiting(t, func(ctx context.Context) (agent.Status, error) { return a.WaitIn(ctx, b, testJob(), time.Hour) })
	require.Eventually(t, s.looked(1), patient, time.Millisecond) // the first look found it at work
	before := time.Now()
	s.events <- `{"type":"message.part.updated","properties":{"sessionID":"ses_0","part":{}}}`
	s.set(func() { s.busy = false; s.messages = append(s.messages, assistant(5000, "stop", "")) })
	s.events <- `{"type":"session.idle","properties":{"sessionID":"ses_0"}}`
	got := <-done
	require.NoError(t, got.err)
	require.True(t, got.st.Done)
	require.False(t, got.st.LastSign.Before(before))
}

// An end that happened while the stream was down is seen when it is up again.
func TestWaitSurvivesABrokenStream(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	_, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	s.set(func() { s.busy = true })
	done := waiting(t, func(ctx context.Context) (agent.Status, error) { return a.WaitIn(ctx, b, testJob(), time.Hour) })
	<-s.opened
	s.cut <- struct{}{}
	<-s.opened
	require.Eventually(t, s.looked(3), patient, time.Millisecond) // connected, broken, connected
	s.set(func() { s.busy = false; s.messages = append(s.messages, assistant(5000, "stop", "")) })
	s.cut <- struct{}{}
	require.True(t, (<-done).st.Done)
}

// Whoever listens on OpenCode's port may send an event that never ends. It does not fill the memory of whoever watches.
func TestEndlessEventIsGivenUp(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	_, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	s.set(func() { s.busy = true })
	s.endless.Store(true)
	done := waiting(t, func(ctx context.Context) (agent.Status, error) { return a.WaitIn(ctx, b, testJob(), time.Hour) })
	<-s.opened
	<-s.opened // again: the first stream was left
	s.endless.Store(false)
	s.set(func() { s.busy = false; s.messages = append(s.messages, assistant(5000, "stop", "")) })
	require.True(t, (<-done).st.Done)
}

func TestDeadProcessIsDoneWithItsLastWords(t *testing.T) {
	t.Parallel()
	_, b, a := newFake(t)
	_, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	b.write("", "Segmentation fault at 0xdead\n")
	b.end(wire.Status{ExitCode: 137, Signal: "killed"})
	for range 2 { // also when it is asked of a process that has long been dead
		st, err := a.WaitIn(t.Context(), b, testJob(), patient)
		require.NoError(t, err)
		require.True(t, st.Done)
		require.Equal(t, 137, st.ExitCode)
		require.Equal(t, "opencode was killed by signal killed; its last words: Segmentation fault at 0xdead", st.Error)
		st, err = a.StartIn(t.Context(), b, testJob())
		require.NoError(t, err)
		require.True(t, st.Done)
	}
	require.Len(t, b.started, 1)
}

func TestLostSandboxIsAnError(t *testing.T) {
	t.Parallel()
	_, b, a := newFake(t)
	_, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	b.end(wire.Status{})
	b.lost = true
	_, err = a.WaitIn(t.Context(), b, testJob(), patient)
	require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)
}

// Stop keeps the transcript, since OpenCode holds it in memory alone.
func TestStopKeepsTheTranscript(t *testing.T) {
	t.Parallel()
	s, b, a := newFake(t)
	require.NoError(t, a.StopIn(t.Context(), b, testJob()), "before the start")
	_, err := a.TranscriptIn(t.Context(), b, testJob())
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	s.set(func() { s.busy = true; s.messages = append(s.messages, assistant(0, "", "")) })
	alive, err := a.TranscriptIn(t.Context(), b, testJob())
	require.NoError(t, err)
	require.Len(t, alive.Messages, 2)

	require.NoError(t, a.StopIn(t.Context(), b, testJob()))
	require.NoError(t, a.StopIn(t.Context(), b, testJob()), "a second time")
	require.Equal(t, 1, s.aborted)
	kept, err := a.TranscriptIn(t.Context(), b, testJob())
	require.NoError(t, err)
	require.Equal(t, alive, kept)

	second := testJob()
	second.Launch = 2
	_, err = a.TranscriptIn(t.Context(), b, second)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

func TestKilledWithoutStopHasNoTranscript(t *testing.T) {
	t.Parallel()
	_, b, a := newFake(t)
	_, err := a.StartIn(t.Context(), b, testJob())
	require.NoError(t, err)
	b.end(wire.Status{ExitCode: 137})
	_, err = a.TranscriptIn(t.Context(), b, testJob())
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}
