package rest

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Formats of training sequences.
const (
	sequenceLines = "jsonl"
	atroposFormat = "atropos"
	trlFormat     = "trl"
)

// Values of the parameter sequences: a row for each rollout, or for each sequence.
const (
	oneSequence  = "one"
	allSequences = "all"
)

type trajectoryQuery struct {
	Format    string `query:"format" enum:"jsonl,atropos,trl" default:"jsonl" description:"jsonl: a line per sequence; atropos: a scored group of Atropos' trainer API; trl: the return value of a TRL rollout_func"`
	Subagents string `query:"subagents" enum:"drop,separate" default:"drop" description:"separate: also return sequences of subagents' turns; drop: leave them out"`
	Summaries string `query:"summaries" enum:"drop,train" default:"drop" description:"train: also return a sequence, of branch auxiliary, of each call that replaced the conversation with a summary; drop: leave them out"`
	Sequences string `query:"sequences" enum:"one,all" description:"one: for each rollout, the sequence with the most trainable tokens; all: every sequence. Default: one for atropos and trl, all for jsonl"`
}

type trajectoryRequest struct {
	rolloutRequest
	trajectoryQuery
}

type groupTrajectoryRequest struct {
	groupRequest
	trajectoryQuery
}

func (a *API) trajectoryRoute() api.Route {
	rt := finishedRoute(
		"/trajectory",
		a.getTrajectory,
		"get_trajectory",
		"Get the training sequences of a finished rollout. 409 while it runs",
		[]any{
			jsonLines, api.TrainingData{},
		},
	)
	rt.Operation.Reads = trajectoryRequest{}

	return rt
}

func (a *API) groupTrajectoryRoute() api.Route {
	return api.Get("/groups/{id}/trajectory", a.getGroupTrajectory, &api.Operation{
		ID:      "get_group_trajectory",
		Tag:     groupTag,
		Summary: "Get the training sequences of all rollouts of a finished group. 409 while it runs",
		Reads:   groupTrajectoryRequest{},
		Answers: []any{jsonLines, api.TrainingData{}},
		Refuses: api.EngineErrors(http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity),
	})
}

func (a *API) getTrajectory(w http.ResponseWriter, r *http.Request) {
	state, err := a.finishedState(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	a.answerTrajectory(w, r, []rollout.State{state}, nil)
}

func (a *API) getGroupTrajectory(w http.ResponseWriter, r *http.Request) {
	g, err := a.Groups.Group(r.Context(), chi.URLParam(r, "id"))
	if err == nil && !g.Done() {
		err = fault.New(fault.Conflict, "group %s is not done yet (%d of %d members): ask again",
			g.ID, g.Finished(), g.Size)
	}

	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	a.answerTrajectory(w, r, membersOf(g), formats.StandingsOf(g))
}

// membersOf returns the rollouts of a group whose outcome may carry a reward. The others are not training data.
func membersOf(g rollout.GroupState) []rollout.State {
	var out []rollout.State

	for _, m := range g.Members {
		if m.Outcome.MayCarryReward() {
			out = append(out, rollout.State{
				ID:      m.RolloutID,
				GroupID: g.ID,
				TaskID:  g.TaskID,
				Outcome: m.Outcome,
				Reward:  m.Reward,
			})
		}
	}

	return out
}

// answerTrajectory answers with the sequences of rollouts in the requested format. standings are those of a group's
// rollouts.
func (a *API) answerTrajectory(
	w http.ResponseWriter,
	r *http.Request,
	done []rollout.State,
	standings map[string]formats.Standing,
) {
	q := r.URL.Query()
	format := cmp.Or(q.Get("format"), sequenceLines)

	choice, err := choiceOf(q, format)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	x, ok := a.export(w, r, mostOf(format))
	if !ok {
		return
	}
	defer x.leave()

	all, err := a.scored(r.Context(), done, choice)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	for i := range all {
		all[i].Standing = standings[all[i].RolloutID]
	}

	x.Shrink(tokensOf(all) * mostOf(format) / sequence.MaxTokens)

	switch format {
	case sequenceLines:
		writeBody(w, jsonLines, func(w io.Writer) error { return writeSequences(w, done, all) })
	case atroposFormat:
		group, err := formats.ToAtropos(all)
		httpio.WriteAnswer(w, group, err)
	case trlFormat:
		lists, err := formats.ToTRL(all)
		httpio.WriteAnswer(w, lists, err)
	default:
		httpio.WriteRefusal(
			w,
			fault.Field("format", "must be %s, %s or %s, got %q", sequenceLines, atroposFormat, trlFormat, format),
		)
	}
}

// mostOf returns the memory of an export of sequence.MaxTokens tokens, in bytes.
func mostOf(format string) int64 {
	if format == sequenceLines {
		return exportmemory.Sequences
	}

	return exportmemory.Shapes
}

func tokensOf(all []formats.Scored) (n int64) {
	for i := range all {
		n += int64(all[i].Trajectory.Tokens())
	}

	return n
}

func writeSequences(w io.Writer, done []rollout.State, all []formats.Scored) error {
	for i := range all {
		if err := formats.WriteLines(w, done[i], all[i]); err != nil {
			return err
		}
	}

	return nil
}

// choice selects sequences of a rollout.
type choice struct {
	sequence.Choice
	one bool
}

// choiceOf returns the choice of a query. Trainers count rows as rollouts, so their formats have one sequence of each
// by default.
func choiceOf(q url.Values, format string) (choice, error) {
	c := choice{Choice: sequenceChoice(q)}
	switch sequences := q.Get("sequences"); sequences {
	case "":
		c.one = format != sequenceLines
	case oneSequence, allSequences:
		c.one = sequences == oneSequence
	default:
		return c, fault.Field("sequences", "must be %s or %s, got %q", oneSequence, allSequences, sequences)
	}

	return c, nil
}

// sequenceChoice returns the values of a query unchecked.
func sequenceChoice(q url.Values) sequence.Choice {
	return sequence.Choice{
		Subagents: sequence.Subagents(q.Get("subagents")),
		Summaries: sequence.Summaries(q.Get("summaries")),
	}
}

// scored builds the trajectory of each rollout. All are in memory together, within the bound of one.
func (a *API) scored(ctx context.Context, done []rollout.State, choice choice) ([]formats.Scored, error) {
	all := make([]formats.Scored, 0, len(done))
	room := sequence.MaxTokens

	for _, state := range done {
		t, rewards, err := a.trajectory(ctx, state.ID, choice.Choice)
		if err != nil {
			return nil, err
		}

		if choice.one {
			t.Rows(true)
		}

		if room -= t.Tokens(); room < 0 {
			return nil, fault.New(fault.Exhausted,
				"the sequences of this group have more than %d tokens: ask for each rollout's",
				sequence.MaxTokens)
		}

		all = append(all, formats.Scored{RolloutID: state.ID, Reward: state.Reward, Rewards: rewards, Trajectory: t})
	}

	return all, nil
}

// trajectory returns the sequences of a rollout with the rewards of their turns, and its named rewards.
func (a *API) trajectory(
	ctx context.Context,
	id string,
	choice sequence.Choice,
) (t sequence.Trajectory, rewards map[string]float64, err error) {
	head, err := a.Rollouts.Wait(ctx, id)
	if err != nil {
		return t, nil, err
	}

	lines, err := a.Rollouts.Open(ctx, id, "trace")
	if err != nil {
		return t, nil, err
	}
	defer lines.Close()

	t, err = sequence.Read(lines, choice)
	t.SetRewards(head.TurnRewards)

	return t, head.Rewards, fault.Wrap(fault.KindOf(err), err, "rollout %s", id)
}
