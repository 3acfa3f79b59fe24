package rest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/arguments"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// scoreRequest is a score of a rollout.
type scoreRequest struct {
	rolloutRequest
	scoreArgs
}

// scoreArgs are the members of a score's body.
type scoreArgs struct {
	Score   float64            `json:"score" required:"true" jsonschema:"the reward" description:"the reward, within reward_range where the task has one"`
	Rewards map[string]float64 `json:"rewards,omitempty" jsonschema:"further rewards by name" description:"further rewards by name, at most 100"`
	Turns   []turnScore        `json:"turns,omitempty" jsonschema:"rewards of turns" description:"rewards of single turns, at most 2000, in addition to the score"`
}

// turnScore is a reward of one turn.
type turnScore struct {
	Turn   int     `json:"turn,omitempty" jsonschema:"number of the turn in the trace" description:"number of the turn in the trace, from 1; this or call_id"`
	CallID string  `json:"call_id,omitempty" jsonschema:"call_id of the turn in the trace" description:"call_id of the turn in the trace"`
	Reward float64 `json:"reward" required:"true" jsonschema:"the reward" description:"the reward, a finite number"`
	Name   string  `json:"name,omitempty" jsonschema:"name of the reward" description:"name of one of several rewards of the turn. Default: the turn's own reward, which trainers add to that of the rollout"`
}

func (a *API) scoreRoutes() []api.Route {
	if a.Episodes == nil {
		return nil
	}

	return []api.Route{
		api.Post("/rollouts/{id}/score", a.scoreRollout, &api.Operation{
			ID:        "score_rollout",
			Tag:       tag,
			Summary:   "Score a rollout with an external verifier, while it waits for its score",
			Reads:     scoreRequest{},
			NeedsBody: true,
			Answers:   reply.ScoreAnswer{},
			Refuses: api.BodyErrors(
				api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusConflict)...),
		}),
	}
}

func (a *API) scoreRollout(w http.ResponseWriter, r *http.Request) {
	body, ok := a.arguments(w, r)
	if !ok {
		return
	}

	id := chi.URLParam(r, "id")

	score, err := a.scoreOf(r.Context(), id, body)
	if err == nil {
		err = a.Episodes.Score(r.Context(), id, score)
	}

	httpio.WriteAnswer(w, reply.ScoreAnswer{RolloutID: id, Score: score.Score}, err)
}

// scoreOf reads a score. Its turns must be in the trace, which is stored before the rollout waits for its score.
func (a *API) scoreOf(ctx context.Context, id string, body map[string]any) (rollout.Score, error) {
	var args scoreArgs
	if err := arguments.Decode("a score", body, &args); err != nil {
		return rollout.Score{}, err
	}

	s := rollout.Score{Score: args.Score, Rewards: args.Rewards}
	if len(args.Turns) == 0 {
		return s, nil
	}

	// before the trace is read for them
	if n := len(args.Turns); n > rollout.MaxTurnRewards {
		return s, fault.Field("turns", "must be at most %d, got %d", rollout.MaxTurnRewards, n)
	}

	known, err := a.knownTurns(ctx, id)
	if err != nil {
		return s, err
	}

	for i, t := range args.Turns {
		number, err := known.numberOf(t)
		if err != nil {
			return s, fault.Field(fmt.Sprintf("turns[%d]", i), "%v", err)
		}

		s.Turns = append(s.Turns, rollout.TurnReward{Turn: number, Name: t.Name, Reward: t.Reward})
	}

	rollout.SortTurnRewards(s.Turns)

	return s, rollout.CheckTurnRewards("turns", s.Turns)
}

// knownTurns are the turns of a trace.
type knownTurns struct {
	// by call id
	numbers map[string]int
	last    int
}

// knownTurns reads a trace. A rollout that begins to await its score has none for a moment: the client asks again.
func (a *API) knownTurns(ctx context.Context, id string) (knownTurns, error) {
	known := knownTurns{numbers: map[string]int{}}

	lines, err := a.Rollouts.Open(ctx, id, "trace")
	if fault.Is(err, fault.NotFound) {
		kind := fault.Conflict
		if state, err := a.Rollouts.State(ctx, id); err == nil && state.Phase == rollout.PhaseScoring {
			kind = fault.Unavailable
		}

		return known, fault.Wrap(kind, err, "turns: the rollout has no trace yet, or makes no model calls")
	}

	if err != nil {
		return known, err
	}

	defer lines.Close()

	err = turns.Each(lines, turns.Unbounded, func(t *rollout.Turn) error {
		known.numbers[t.CallID], known.last = t.Turn, max(known.last, t.Turn)
		return nil
	})

	return known, err
}

func (k knownTurns) numberOf(t turnScore) (int, error) {
	number, found := k.numbers[t.CallID]

	switch {
	case t.CallID == "" && t.Turn == 0:
		return 0, fmt.Errorf("must have turn or call_id")
	case t.CallID != "" && !found:
		return 0, fmt.Errorf("the trace has no turn with the call_id %q", t.CallID)
	case t.CallID != "" && t.Turn != 0 && t.Turn != number:
		return 0, fmt.Errorf("call_id %q is turn %d, not %d", t.CallID, number, t.Turn)
	case t.CallID != "":
		return number, nil
	case t.Turn < 1 || t.Turn > k.last:
		return 0, fmt.Errorf("the trace has no turn %d: it has the turns 1 to %d", t.Turn, k.last)
	}

	return t.Turn, nil
}
