package web_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/web"
)

// A log is bounded in entries and in bytes; it always has the latest entry.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ entries, size, kept int }{
		"entries": {1010, 1, 1000},
		"bytes":   {10, 3 << 20, 2},
		"one":     {2, 9 << 20, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := session.Transient()
			defer s.Close(session.ErrClosed)

			var views web.Views

			view := views.Of(s)

			seen := json.RawMessage(`"` + strings.Repeat("x", c.size) + `"`)
			for i := range c.entries {
				require.NoError(t, view.Add(web.Entry{Observation: seen, StepCount: i}))
			}

			update, _ := view.Show(s.State())
			require.Len(t, update.State.Log, c.kept)

			var last web.Entry
			require.NoError(t, json.Unmarshal(update.State.Log[c.kept-1], &last))
			require.Equal(t, c.entries-1, last.StepCount)
			require.Equal(t, seen, update.State.Observation)
		})
	}
}

// A change wakes the watchers and does not alter views that were returned before.
func TestChangesWakeWatchers(t *testing.T) {
	t.Parallel()

	s := session.Transient()
	defer s.Close(session.ErrClosed)

	var views web.Views

	view := views.Of(s)
	before, changed := view.Show(s.State())
	require.NoError(t, view.Add(web.Entry{Observation: json.RawMessage("1")}))
	<-changed
	require.Empty(t, before.State.Log)
	after, changed := view.Show(s.State())
	view.Reset()
	<-changed
	require.Len(t, after.State.Log, 1)
}
