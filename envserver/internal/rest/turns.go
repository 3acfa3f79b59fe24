package rest

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/tokens"
	"github.com/rolloutd/rolloutd/internal/trajectory/traceindex"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
)

type turnsRequest struct {
	rolloutRequest
	After int `query:"after" minimum:"0" default:"0" description:"number of the turn to continue after: next of the previous page"`
	Limit int `query:"limit" minimum:"1" maximum:"200" default:"200" description:"largest number of turns in a page"`
}

type partRequest struct {
	rolloutRequest
	Turn   int `path:"turn" minimum:"1" description:"number of the turn"`
	Part   int `path:"part" minimum:"0" description:"number of the part in the turn, from 0"`
	Offset int `query:"offset" minimum:"0" default:"0" description:"offset in the text, in bytes: next of the previous range"`
}

type alternativesRequest struct {
	rolloutRequest
	Turn  int `path:"turn" minimum:"1" description:"number of the turn"`
	Start int `query:"start" minimum:"0" default:"0" description:"index of the first token in the reply"`
}

type tokensRequest struct {
	rolloutRequest
	Sequence  int    `query:"sequence" minimum:"0" default:"0" description:"number of the sequence, from 0"`
	Start     int    `query:"start" minimum:"0" default:"0" description:"index of the first token"`
	Limit     int    `query:"limit" minimum:"1" maximum:"10000" default:"2000" description:"largest number of tokens"`
	Subagents string `query:"subagents" enum:"drop,separate" default:"drop" description:"separate: also return sequences of subagents' turns; drop: leave them out"`
	Summaries string `query:"summaries" enum:"drop,train" default:"drop" description:"train: also return a sequence, of branch auxiliary, of each call that replaced the conversation with a summary; drop: leave them out"`
}

// turnRoutes returns the routes that read a trace in parts, for people.
func (a *API) turnRoutes() []api.Route {
	turns := finishedRoute(
		"/turns",
		a.getTurns,
		"get_turns",
		"Get the conversation of a finished rollout, a page at a time: of each model call the new messages and the reply. 409 while it runs",
		transcript.Page{},
	)
	turns.Operation.Reads = turnsRequest{}

	part := finishedRoute(
		"/turns/{turn}/parts/{part}",
		a.getPart,
		"get_turn_part",
		"Get a range of a text of a turn, at most 256 KiB. 409 while the rollout runs",
		transcript.Range{},
	)
	part.Operation.Reads = partRequest{}

	alternatives := finishedRoute(
		"/turns/{turn}/alternatives",
		a.getAlternatives,
		"get_turn_alternatives",
		"Get the alternatives to the tokens of a reply that the endpoint gave, of at most 1000 tokens. 409 while the rollout runs",
		tokens.Alternatives{},
	)
	alternatives.Operation.Reads = alternativesRequest{}

	view := finishedRoute(
		"/tokens",
		a.getTokens,
		"get_tokens",
		"Get tokens of a training sequence of a finished rollout with texts, log probabilities and mask. 409 while it runs",
		tokens.View{},
	)
	view.Operation.Reads = tokensRequest{}

	return []api.Route{turns, part, alternatives, view}
}

func (a *API) getTurns(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()

	after, err := wholeNumber(q, "after", 0, 0, sequence.MaxTokens)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	limit, err := wholeNumber(q, "limit", transcript.MaxTurns, 1, transcript.MaxTurns)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	a.answerIndex(w, r, exportmemory.Messages, func(i *traceindex.Index) (any, error) { return i.Turns(after, limit) })
}

func (a *API) getPart(w http.ResponseWriter, r *http.Request) {
	turn, turnErr := strconv.Atoi(chi.URLParam(r, "turn"))
	part, partErr := strconv.Atoi(chi.URLParam(r, "part"))

	offset, err := wholeNumber(r.URL.Query(), "offset", 0, 0, maxTextBytes)
	if err == nil && (turnErr != nil || partErr != nil || turn < 1 || part < 0) {
		err = fault.New(fault.NotFound, "turns are numbered from 1 and their parts from 0, got %q and %q", chi.URLParam(r, "turn"), chi.URLParam(r, "part"))
	}

	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	a.answerIndex(w, r, exportmemory.Messages, func(i *traceindex.Index) (any, error) { return i.Part(turn, part, offset) })
}

func (a *API) getAlternatives(w http.ResponseWriter, r *http.Request) {
	turn, turnErr := strconv.Atoi(chi.URLParam(r, "turn"))

	start, err := wholeNumber(r.URL.Query(), "start", 0, 0, sequence.MaxTokens)
	if err == nil && (turnErr != nil || turn < 1) {
		err = fault.New(fault.NotFound, "turns are numbered from 1, got %q", chi.URLParam(r, "turn"))
	}

	if err == nil {
		_, err = a.finishedState(r)
	}

	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	x, ok := a.export(w, r, exportmemory.Sequences)
	if !ok {
		return
	}
	defer x.leave()

	lines, err := a.Rollouts.Open(r.Context(), chi.URLParam(r, "id"), "trace")
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer lines.Close()

	found, err := tokens.ReadAlternatives(lines, turn, start)
	httpio.WriteAnswer(w, found, err)
}

func (a *API) getTokens(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()

	var window tokens.Window

	for _, p := range []struct {
		name             string
		into             *int
		fallback, lo, hi int
	}{
		{"sequence", &window.Sequence, 0, 0, sequence.MaxTokens},
		{"start", &window.Start, 0, 0, sequence.MaxTokens},
		{"limit", &window.Limit, tokens.DefaultTokens, 1, tokens.MaxTokens},
	} {
		n, err := wholeNumber(q, p.name, p.fallback, p.lo, p.hi)
		if err != nil {
			httpio.WriteRefusal(w, err)
			return
		}

		*p.into = n
	}

	choice := sequenceChoice(q)

	a.answerIndex(w, r, exportmemory.Sequences, func(i *traceindex.Index) (any, error) {
		view, err := i.Tokens(choice, window)
		if errors.Is(err, traceindex.ErrOtherChoice) {
			return a.readTokens(r, choice, window)
		}

		return view, err
	})
}

// maxTextBytes bounds the offset in a text.
const maxTextBytes = 1 << 40

// wholeNumber reads a parameter that is a whole number from lo to hi, or returns fallback if it is missing.
func wholeNumber(q url.Values, name string, fallback, lo, hi int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return fallback, nil
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < lo || n > hi {
		return 0, fault.Field(name, "must be a whole number from %d to %d, got %q", lo, hi, text)
	}

	return n, nil
}

// readTokens makes a view of the whole trace.
func (a *API) readTokens(r *http.Request, choice sequence.Choice, w tokens.Window) (tokens.View, error) {
	lines, err := a.Rollouts.Open(r.Context(), chi.URLParam(r, "id"), "trace")
	if err != nil {
		return tokens.View{}, err
	}
	defer lines.Close()

	return tokens.Read(lines, choice, w)
}

// answerIndex answers with what read makes of the index of a finished rollout's trace, within the memory of an export.
func (a *API) answerIndex(
	w http.ResponseWriter,
	r *http.Request,
	most int64,
	read func(*traceindex.Index) (any, error),
) {
	state, err := a.finishedState(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	x, ok := a.export(w, r, most)
	if !ok {
		return
	}
	defer x.leave()

	var answer any

	err = a.Rollouts.Index(r.Context(), state.ID, func(i *traceindex.Index) (err error) {
		answer, err = read(i)
		return err
	})
	httpio.WriteAnswer(w, answer, err)
}
