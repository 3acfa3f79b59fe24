package envserver_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A score names turns by number or call id, which must be in the trace; the workflow gets them in one order.
func TestScoreOfTurns(t *testing.T) {
	t.Parallel()

	var episodes *fakeEpisodes

	r := start(t, func(o *envserver.Options) {
		withEpisodes(o)

		episodes = o.Episodes.(*fakeEpisodes)
	})
	r.fake.setTraceLines(`{"turn":1,"call_id":"c1"}` + "\n" + `{"turn":2,"call_id":"c2"}` + "\n")
	r.begin("r1")

	for body, want := range map[string]string{
		`{}`:                                                                      "score: is missing",
		`{"score":"nan"}`:                                                         "score: must be ",
		`{"score":1,"rewards":{"a":"x"}}`:                                         `rewards["a"]: must be `,
		`{"score":1,"rewards":[1]}`:                                               "rewards: must be ",
		`{"score":1,"turns":[{"turn":1}]}`:                                        "turns[0].reward: is missing",
		`{"score":1,"turns":[{"reward":1}]}`:                                      "turns[0]: must have turn or call_id",
		`{"score":1,"turns":[{"turn":3,"reward":1}]}`:                             "turns[0]: the trace has no turn 3: it has the turns 1 to 2",
		`{"score":1,"turns":[{"turn":-1,"reward":1}]}`:                            "turns[0]: the trace has no turn -1",
		`{"score":1,"turns":[{"call_id":"c9","reward":1}]}`:                       `turns[0]: the trace has no turn with the call_id "c9"`,
		`{"score":1,"turns":[{"turn":1,"call_id":"c2","reward":1}]}`:              `call_id "c2" is turn 2, not 1`,
		`{"score":1,"turns":[{"turn":2,"reward":1},{"call_id":"c2","reward":0}]}`: `turn 2 has two called ""`,
		`{"score":1,"turn":[]}`:                                                   "turn: unknown argument",
	} {
		status, _, out := r.do("POST", "/rollouts/r1/score", body)
		require.Equal(t, http.StatusUnprocessableEntity, status, body)
		require.Contains(t, object(t, out)["detail"], want)
	}

	require.Empty(t, episodes.scores)

	status, _, out := r.do("POST", "/rollouts/r1/score", `{"score":1,"rewards":{"style":0.5},
		"turns":[{"call_id":"c2","reward":-1},{"turn":1,"reward":2,"name":"b"},{"turn":1,"reward":3}]}`)
	require.Equal(t, http.StatusOK, status, out)
	require.JSONEq(t, `{"rollout_id":"r1","score":1}`, out)
	require.Equal(t, []rollout.Score{{
		Score: 1, Rewards: map[string]float64{"style": 0.5},
		Turns: []rollout.TurnReward{{Turn: 1, Reward: 3}, {Turn: 1, Name: "b", Reward: 2}, {Turn: 2, Reward: -1}},
	}}, episodes.scores)
}

// Who scores turns reads the trace before, while the rollout awaits its score.
func TestTraceWhileARolloutAwaitsItsScore(t *testing.T) {
	t.Parallel()

	for _, scoring := range []bool{true, false} {
		r := shared(t)
		r.fake.scoring = scoring
		r.fake.setTraceLines(`{"turn":1,"call_id":"c1"}` + "\n")
		r.beginAsAlice("r1")

		status, _, out := r.do("GET", "/rollouts/r1/trace", "", "Authorization", alice)
		if !scoring {
			require.Equal(t, http.StatusConflict, status, out)
			continue
		}

		require.Equal(t, http.StatusOK, status, out)
		require.Equal(t, "c1", object(t, out)["call_id"])
	}
}

// The sequences of a rollout have its named rewards and those of its turns.
func TestTrajectoryWithRewards(t *testing.T) {
	t.Parallel()

	r := start(t)
	r.fake.left = exported(t, session())
	r.fake.edit = func(res *rollout.Result) {
		res.Rewards = map[string]float64{"style": 0.5}
		res.TurnRewards = []rollout.TurnReward{{Turn: 2, Reward: -1}}
	}
	r.begin("r1")

	status, _, out := r.do("GET", "/rollouts/r1/trajectory?sequences=one", "")
	require.Equal(t, http.StatusOK, status, out)
	require.Equal(t, 0.5, valueAt(t, object(t, out), "rewards", "style"))
	require.Contains(t, out, `"reward":-1`)
}
