package opencode_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
)

// OpenCode is suspended while it waits for its model. The watch does not resume it, and it still answers
// the requests of Stop.
func TestStoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	w := newTestAgent(t, "turns: [{text: never, faults: [{hang: true}]}]")
	r := w.begin(t, w.agent(), agent.Job{Instruction: "go", Launch: 1})
	paused := func() bool {
		st, err := w.Status(t.Context(), "agent-1")
		require.NoError(t, err)
		require.True(t, st.Running)

		return st.Paused
	}

	watched := func() {
		st, err := r.Next(t.Context())
		require.NoError(t, err)
		require.False(t, st.Done, st.Error)
		require.True(t, st.Ready)
	}
	for !paused() {
		watched()
	}
	// takes up to ten seconds
	watched()
	require.True(t, paused())

	require.NoError(t, r.Stop(t.Context()))
	transcript, err := r.Transcript(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, transcript.Messages, "it took part in its end")
	st := w.finish(t, r)
	require.Contains(t, st.Error, "killed")
}
