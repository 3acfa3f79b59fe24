package react

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/tool"
)

// For any amount of tool output, the transcript has the replies, because readers follow the agent by it.
func TestResultsLeaveRoomForReplies(t *testing.T) {
	t.Parallel()

	j := newJournal("s", nil)
	for n := range 2 * maxTranscript / maxToolText {
		j.addReply(&step{number: n + 1, answer: &answer{Text: "now"}, calls: []call{{ID: "c", Name: "terminal"}}})
		j.addResult(0, tool.Result{Content: strings.Repeat("x", maxToolText)}, time.Now())
	}

	j.addReply(&step{number: 10_000, answer: &answer{Text: "the end"}})
	said, err := j.transcript()
	require.NoError(t, err)
	raw, err := json.Marshal(said)
	require.NoError(t, err)
	require.Less(t, len(raw), maxTranscript)
	require.Contains(t, string(raw), "65536 bytes left out")
	require.Contains(t, string(raw), "the end")
}
