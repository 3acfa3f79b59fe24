package envserver_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A client cannot take an id that a group, a producer or a trajectory of another client derives from its own.
func TestDerivedIDsOfOthersAreTaken(t *testing.T) {
	t.Parallel()

	groups := &fakeGroups{states: map[string]rollout.GroupState{"g": {ID: "g", Owner: "alice"}}}
	producers := newFakeProducers()
	producers.states["p"] = producer.State{ID: "p", Owner: "alice"}
	r := shared(t, func(o *envserver.Options) { o.Groups, o.Producers = groups, producers })
	start := func(as, id string) int {
		body, err := json.Marshal(task(id, "do it"))
		require.NoError(t, err)

		status, _, _ := r.do("POST", "/rollouts", string(body), "Authorization", as)

		return status
	}
	startGroup := func(as, id string) int {
		status, _, _ := r.do("POST", "/groups", groupBody(id), "Authorization", as)
		return status
	}

	for _, id := range []string{"g-0", "g-3r1", "p-7-0", "p-7t1-0", "p-e1-2-0", "trajectory-0123456789abcdef0123456789abcdef-0"} {
		require.Equal(t, http.StatusConflict, start(bob, id), id)
	}

	for _, id := range []string{"g-0", "p-7-0"} {
		require.Equal(t, http.StatusAccepted, start(alice, id), id)
	}

	for _, id := range []string{"task-12", "trajectory-1", "h-0"} {
		require.Equal(t, http.StatusAccepted, start(bob, id), id)
	}

	require.Equal(t, http.StatusConflict, startGroup(bob, "p-7"), "a group of alice's producer")
	require.Equal(t, http.StatusConflict, startGroup(alice, "h"), "bob has its first rollout")
	require.Equal(t, http.StatusAccepted, startGroup(bob, "h"))
	require.Equal(t, http.StatusAccepted, startGroup(alice, "g"), "the group itself")
	require.Equal(t, http.StatusAccepted, startGroup(alice, "i"))
}

// The executor's own rollouts have the reserved ids of trajectories.
func TestExecutorStartsTrajectories(t *testing.T) {
	t.Parallel()
	r := shared(t, withEpisodes)
	_, _, out := r.do(
		"POST",
		"/executor/execute",
		`{"trajectory_id":"mine","tool":{"name":"note","arguments":{"text":"a"},"uniq_id":"1"}}`,
		"Authorization",
		alice,
	)
	require.NotContains(t, out, "reserved", out)
	require.Equal(t, 1, r.fake.count(), out)
}
