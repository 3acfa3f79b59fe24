package daemon_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// A server finds the rollouts of its store, for those who have a token.
func TestServerSearchesItsStore(t *testing.T) {
	t.Parallel()

	c, _ := kept(t)
	c.Serve.Tokens = []string{theToken}

	s, err := store.Open(t.Context(), c.StoreURL())
	require.NoError(t, err)

	r := rollout.NewResult("r1")
	r.Outcome, r.Owner, r.Error = rollout.AgentFailed, "ann", new("KeyError in main.py")
	require.NoError(t, s.PutJSON(t.Context(), store.ResultKey(r.ID), r))
	require.NoError(t, s.PutJSON(t.Context(), store.HeadKey(r.ID), r))
	require.NoError(t, s.Close())

	serving(t, c, func(address string) {
		var found string

		// the index is read after the start
		require.Eventually(t, func() bool {
			status, body := fetch(t, http.MethodGet, "http://"+address+"/rollouts?q=keyerror", theToken)
			found = body

			return status == http.StatusOK && strings.Contains(body, `"r1"`)
		}, time.Minute, 10*time.Millisecond)
		require.Contains(t, found, `"match":"`)

		status, _ := fetch(t, http.MethodGet, "http://"+address+"/rollouts?q=keyerror", "")
		require.Equal(t, http.StatusUnauthorized, status)
	})
}
