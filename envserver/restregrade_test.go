package envserver_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// fakeRegrades keeps regrades in memory. They end when they are asked about.
type fakeRegrades struct {
	mu    sync.Mutex
	asked map[string]rollout.RegradeRequest
}

func (f *fakeRegrades) Regrade(_ context.Context, id string, req rollout.RegradeRequest) (rollout.Regrade, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.asked == nil {
		f.asked = map[string]rollout.RegradeRequest{}
	}

	f.asked[req.ID] = req

	return rollout.Regrade{ID: req.ID, RolloutID: id}, nil
}

func (f *fakeRegrades) WaitRegrade(_ context.Context, id, regradeID string) (rollout.Regrade, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	req, ok := f.asked[regradeID]
	if !ok {
		return rollout.Regrade{}, fault.New(fault.NotFound, "no regrade %q", regradeID)
	}

	at := time.Unix(1_700_000_000, 0).UTC()

	return rollout.Regrade{ID: regradeID, RolloutID: id, FinishedAt: &at, Reward: new(1.0), Applied: req.Apply}, nil
}

func (f *fakeRegrades) Regrades(_ context.Context, id string) (rollout.Regrades, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	all := rollout.Regrades{Regrades: []rollout.Regrade{}}
	for regradeID := range f.asked {
		all.Regrades = append(all.Regrades, rollout.Regrade{ID: regradeID, RolloutID: id})
	}

	return all, nil
}

// A token regrades its own rollouts within its limits; other tokens' rollouts do not exist for it. The task needs no model.
func TestRegradeOverREST(t *testing.T) {
	t.Parallel()

	engine := &fakeRegrades{}
	r := shared(t, func(o *envserver.Options) {
		o.Regrades, o.Agents = engine, []string{rollout.AgentOpencode, rollout.AgentNop}
	})
	r.beginAsAlice("r1")

	const body = `{"task":{"instruction":"x","verify":["true"],"endpoint":"nowhere","agent":"react"},"apply":true,"regrade_id":"x1"}`

	status, _, out := r.do("POST", "/rollouts/r1/regrade", body, "Authorization", alice)
	require.Equal(t, http.StatusAccepted, status, out)
	require.Equal(t, "alice", engine.asked["x1"].Task.Owner)
	require.Equal(t, []string{"true"}, engine.asked["x1"].Task.Task.Verifier.Commands)
	require.True(t, engine.asked["x1"].Apply)

	status, _, out = r.do("GET", "/rollouts/r1/regrades/x1?wait_s=1", "", "Authorization", admin)
	require.Equal(t, http.StatusOK, status, out)
	require.Equal(t, true, object(t, out)["applied"])

	status, _, out = r.do("GET", "/rollouts/r1/regrades", "", "Authorization", alice)
	require.Equal(t, http.StatusOK, status, out)
	require.Len(t, object(t, out)["regrades"], 1)

	for _, at := range []string{"POST /regrade", "GET /regrades/x1", "GET /regrades"} {
		method, path, _ := strings.Cut(at, " ")

		given := ""
		if method == "POST" {
			given = body
		}

		status, _, out = r.do(method, "/rollouts/r1"+path, given, "Authorization", bob)
		require.Equal(t, http.StatusNotFound, status, "%s: %s", at, out)
	}

	for _, refused := range []string{
		`{"task":{"instruction":"x","verify":["true"],"sandbox":{"memory":"1000GB"}}}`,
		`{"task":{"instruction":"x","verify":"true"}}`, `{"task":[]}`, `{"task":{"instruction":"x"},"apply":1}`,
		`{"task":{"instruction":"x"},"regrade_id":1}`, `{"task":{"instruction":"x"},"more":1}`,
	} {
		status, _, out = r.do("POST", "/rollouts/r1/regrade", refused, "Authorization", alice)
		require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", refused, out)
	}

	status, _, _ = r.do("GET", "/rollouts/r1/regrades/x1?wait_s=nan", "", "Authorization", alice)
	require.Equal(t, http.StatusUnprocessableEntity, status)
}

// A client starts its own rollout again, and grades it again by the verifier that it had; other tokens' rollouts do not
// exist for it, and nobody spends the model's key of another one.
func TestRolloutAgain(t *testing.T) {
	t.Parallel()

	engine := &fakeRegrades{}
	r := shared(t, func(o *envserver.Options) { o.Regrades = engine })
	r.beginAsAlice("r1")

	status, _, out := r.do("POST", "/rollouts/r1/again", `{"rollout_id":"r2"}`, "Authorization", alice)
	require.Equal(t, http.StatusAccepted, status, out)
	require.Equal(t, "r2", object(t, out)["rollout_id"])

	first, _ := r.fake.spec("r1")
	second, _ := r.fake.spec("r2")
	first.ID = "r2"
	require.Equal(t, first, second)

	status, _, out = r.do("POST", "/rollouts/r1/regrade", `{"regrade_id":"x1"}`, "Authorization", alice)
	require.Equal(t, http.StatusAccepted, status, out)
	require.Equal(t, first.Task, engine.asked["x1"].Task.Task)

	for token, want := range map[string]int{bob: http.StatusNotFound, admin: http.StatusConflict} {
		status, _, out = r.do("POST", "/rollouts/r1/again", `{}`, "Authorization", token)
		require.Equal(t, want, status, out)
	}

	for _, refused := range []string{`{"rollout_id":"a b"}`, `{"rollout_id":1}`, `{"agent":"react"}`, `[]`} {
		status, _, out = r.do("POST", "/rollouts/r1/again", refused, "Authorization", alice)
		require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", refused, out)
	}
}
