package agenttest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
)

func attachBeforeTheStart(t *testing.T, h Harness) {
	p := h.installed(t)
	_, err := h.Agent(t).Attach(t.Context(), h.env(t, p), h.Quick)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

// finishedAgent has one finished agent for several properties, because an agent takes seconds of processor time to start.
func finishedAgent(t *testing.T, h Harness) {
	p := h.installed(t)
	r := h.open(t, p, h.Quick)
	st := Finish(t, r)
	require.True(t, st.Answered(), "%+v", st)

	t.Run("DoneIsReturnedAtOnce", func(t *testing.T) { doneIsReturnedAtOnce(t, h, p, r, st) })
	t.Run("OpenStartsOnce", func(t *testing.T) { openStartsOnce(t, h, p, st) })
	t.Run("TranscriptAndOutput", func(t *testing.T) { transcriptAndOutput(t, h, p, r) })
	t.Run("StopChangesNothing", func(t *testing.T) { stopChangesNothing(t, h, p, r, st) })
}

func doneIsReturnedAtOnce(t *testing.T, h Harness, p *Place, r agent.Run, st agent.Status) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	again, err := r.Next(cancelled)
	require.NoError(t, err)
	require.Equal(t, st, again)
	attached := Finish(t, h.attach(t, p, h.Quick))
	require.True(t, attached.Answered(), "another worker sees the same end: %+v", attached)
}

// openStartsOnce opens the same job in another worker.
func openStartsOnce(t *testing.T, h Harness, p *Place, st agent.Status) {
	calls := p.Calls.Load()
	second := h.open(t, p, h.Quick)
	require.Equal(t, 1, second.Launch().Number)
	require.False(t, second.Launch().Began.IsZero())
	again := Finish(t, second)
	require.True(t, again.Answered(), "%+v", again)
	require.Equal(t, st.SessionID, again.SessionID)
	require.Equal(t, calls, p.Calls.Load(), "the work was not done twice")

	if !h.OnHost {
		_, err := p.Status(t.Context(), agent.ProcessName(2))
		require.True(t, fault.Is(err, fault.NotFound), "a second launch: %v", err)
	}
}

func transcriptAndOutput(t *testing.T, h Harness, p *Place, r agent.Run) {
	for _, r := range []agent.Run{r, h.attach(t, p, h.Quick)} {
		got, err := r.Transcript(t.Context())
		if h.Messages {
			require.NoError(t, err)
			require.NotEmpty(t, got.Messages)
		} else {
			require.True(t, fault.Is(err, fault.NotFound), "%v", err)
		}

		out, err := r.Output(t.Context(), 10)
		require.NoError(t, err)
		require.LessOrEqual(t, len(out), 20, "ten bytes of each stream")
	}
}

func stopChangesNothing(t *testing.T, h Harness, p *Place, r agent.Run, st agent.Status) {
	require.NoError(t, r.Stop(t.Context()))
	require.NoError(t, h.attach(t, p, h.Quick).Stop(t.Context()))
	again, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, st, again)
}

func lostSandboxAtTheStart(t *testing.T, h Harness) {
	p := h.installed(t)
	p.Destroy(t)
	_, err := h.Agent(t).Open(t.Context(), h.env(t, p), h.Quick)
	require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)
	_, err = h.Agent(t).Attach(t.Context(), h.env(t, p), h.Quick)
	require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)
}

func loudAgentIsBounded(t *testing.T, h Harness) {
	if h.Loud == nil {
		t.Skip("the agent has no loud job")
	}

	p := h.installed(t)
	r := h.open(t, p, *h.Loud)
	Finish(t, r)
	got, err := r.Transcript(t.Context())
	require.NoError(t, err)
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), MaxTranscript)
	out, err := r.Output(t.Context(), 1000)
	require.NoError(t, err)
	require.NotEmpty(t, out)
	require.LessOrEqual(t, len(out), 2000)
}
