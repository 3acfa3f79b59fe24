package result_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/indexstore"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/rollout/result"
	"github.com/rolloutd/rolloutd/internal/store"
)

// A long trace has its index when its rollout ends. A short one, or one that cannot be read, has none.
func TestIndexOfALongTrace(t *testing.T) {
	t.Parallel()

	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer st.Close()

	turn := `{"turn":%d,"request":{"messages":[{"role":"user","content":"` + strings.Repeat("x", 1<<20) + `"}]}}` + "\n"

	for id, c := range map[string]struct {
		turns int
		end   string
		kept  bool
	}{
		"short": {turns: 1}, "long": {turns: 5, kept: true}, "broken": {turns: 5, end: "{"},
	} {
		var lines strings.Builder
		for n := range c.turns {
			fmt.Fprintf(&lines, turn, n+1)
		}

		key := store.AttemptKey(id, 1, store.Trace)
		_, err := st.PutBytes(t.Context(), key, []byte(lines.String()+c.end))
		require.NoError(t, err)

		composer := result.Composer{
			Store: st, Logger: slog.New(slog.DiscardHandler), Target: rollout.Target{RolloutID: id, Attempt: 1},
		}
		_, err = composer.Compose(t.Context())
		require.Equal(t, c.end != "", err != nil, "%s: %v", id, err)

		index, err := indexstore.Open(t.Context(), st, key)
		require.Equal(t, !c.kept, fault.Is(err, fault.NotFound), "%s: %v", id, err)

		if c.kept {
			page, err := index.Turns(0, 10)
			require.NoError(t, err)
			require.Len(t, page.Turns, c.turns)
		}
	}
}
