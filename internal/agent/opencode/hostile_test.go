package opencode_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// flood returns a handler that answers every request with an array of more than n empty objects.
func flood(n int) http.HandlerFunc {
	piece := strings.Repeat("{},", 1<<16)

	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "[")

		left := n
		for err := error(nil); left > 0 && err == nil; left -= 1 << 16 {
			_, err = io.WriteString(w, piece)
		}

		_, _ = io.WriteString(w, "{}]")
	}
}

// A server that replaces OpenCode and answers with 60 MB of empty objects makes the agent fail. Reading the
// reply allocates a few MiB; decoding it at once would allocate gigabytes.
//
//nolint:paralleltest // it measures the memory of the whole process
func TestFloodOfMessagesFailsTheAgent(t *testing.T) {
	s, b, a := newFake(t)
	r := startRun(t, a, b)
	s.messagesBy = flood(20 << 20)
	before := allocated()
	st := next(t, r)
	require.True(t, st.Done)
	require.NotZero(t, st.ExitCode)
	require.Contains(t, st.Error, "more than 200000 elements")
	require.Less(t, allocated()-before, uint64(200<<20), "bytes allocated in all, freed ones included")

	transcript, err := r.Transcript(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, len(transcript.Messages), 20_000)
	require.Less(t, allocated()-before, uint64(400<<20))
}

// An invalid reply from the port is a failure of the agent, not of the infrastructure.
func TestGarbageFailsTheAgent(t *testing.T) {
	t.Parallel()

	for name, text := range map[string]string{
		"no JSON":  "hello",
		"no array": `{"a":1}`,
		"deep":     strings.Repeat("[", 1000),
		"cut":      `[{"info":`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b, a := newFake(t)
			r := startRun(t, a, b)
			s.messagesBy = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
			st := next(t, r)
			require.True(t, st.Done)
			require.NotZero(t, st.ExitCode)
			require.Contains(t, st.Error, "opencode's answer to GET /session/ses_0/message")
		})
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)

	return m.TotalAlloc
}
