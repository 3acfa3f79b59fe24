package rest

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/produce"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const tag = "Rollouts"

// API serves rollouts as HTTP resources.
type API struct {
	Rollouts access.Rollouts

	// nil: no groups
	Groups access.Groups

	// nil: rollouts cannot be graded again
	Regrades access.Regrades

	// nil: no sinks
	Deliveries access.Deliveries

	// nil: no producers
	Producers access.Producers

	// starts the producers
	Produce *produce.Starter

	// nil: rollouts cannot be scored by clients
	Episodes access.Episodes

	// nil: no hosts for operators
	Hosts access.Hosts

	// nil: the endpoints are not shown
	Endpoints Endpoints
	Env       *env.Env

	// nil: clients cannot send files ahead
	Uploads Uploads
	Bodies  httpio.Bodies
	Exports *exportmemory.Room
	// Context returns the context of a request that waits: it ends when the client leaves or the server stops.
	Context func(*http.Request) (context.Context, context.CancelFunc)
}

// Routes returns all routes.
func (a *API) Routes() []api.Route {
	all := []api.Route{
		api.Post("/rollouts", a.postRollout, &api.Operation{
			ID:        "start_rollout",
			Tag:       tag,
			Summary:   "Start a rollout. The body has the arguments of the tool start_rollout",
			Reads:     tools.RolloutArgs{},
			NeedsBody: true,
			Answers:   tools.Started{},
			Status:    http.StatusAccepted,
			Refuses:   api.BodyErrors(api.EngineErrors(http.StatusUnprocessableEntity, http.StatusConflict)...),
		}),
		api.Get("/rollouts", a.listRollouts, &api.Operation{
			ID:      "list_rollouts",
			Tag:     tag,
			Summary: "List the caller's rollouts, running ones first. Operators see all",
			Reads:   listRequest{},
			Answers: rollout.Page{},
			Refuses: api.EngineErrors(http.StatusUnprocessableEntity),
		}),
		api.Get("/counts", a.countRollouts, &api.Operation{
			ID:      "count_rollouts",
			Tag:     tag,
			Summary: "Count the caller's rollouts that have ended, by outcome, reward, turns and duration. Operators see all",
			Reads:   selectRequest{},
			Answers: rollout.Counts{},
			Refuses: api.EngineErrors(http.StatusUnprocessableEntity),
		}),
		rolloutRoute("", a.getRollout, "get_rollout", "Get the state of a rollout", rollout.State{}),
		rolloutRoute(
			"/messages",
			a.getMessages,
			"get_messages",
			"Get the agent's latest transcript",
			rollout.Transcript{},
		),
		api.Get("/rollouts/{id}/events", a.events, &api.Operation{
			ID:      "get_events",
			Tag:     tag,
			Summary: "Stream the events of a rollout as server-sent events. Last-Event-ID continues a stream",
			Reads:   eventsRequest{},
			Answers: api.Media("text/event-stream"),
			Refuses: api.EngineErrors(http.StatusNotFound),
		}),
		a.resultRoute(),
		a.traceRoute(),
		a.expertsRoute(),
		a.imagesRoute(),
		a.trajectoryRoute(),
		finishedRoute(
			"/logs/agent",
			a.agentLog,
			"get_agent_log",
			"Get the output of the agent's processes. 409 while the rollout runs",
			textPlain,
		),
		finishedRoute(
			"/logs/proxy",
			a.proxyLog,
			"get_proxy_log",
			"Get the end of the gateway's log. 409 while the rollout runs",
			textPlain,
		),
		finishedRoute(
			"/logs/network",
			a.networkLog,
			"get_network_log",
			"Get the connections that the task's processes made to other hosts, as JSON lines. 409 while the rollout runs",
			textPlain,
		),
		finishedRoute(
			"/logs/verifier",
			a.verifierLog,
			"get_verifier_log",
			"Get the verifier's standard output, its standard error, then the output of each verify command. 409 while the rollout runs",
			textPlain,
		),
		api.Post("/rollouts/{id}/abort", a.abortRollout, &api.Operation{
			ID:      "abort_rollout",
			Tag:     tag,
			Summary: "Abort a rollout",
			Reads:   abortRequest{},
			Answers: reply.AbortAnswer{},
			Refuses: api.BodyErrors(api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound)...),
		}),
	}

	all = slices.Concat(
		all,
		[]api.Route{
			a.againRoute(),
			rolloutRoute(
				"/arguments",
				a.getArguments,
				"get_arguments",
				"Get the arguments that start a rollout like this one, without keys",
				argumentsAnswer{},
			),
		},
		a.endpointRoutes(),
		a.taskSetRoutes(),
		a.exampleRoutes(),
		a.turnRoutes(),
		a.groupRoutes(),
		a.deliveryRoutes(),
		a.hostRoutes(),
		a.producerRoutes(),
		a.scoreRoutes(),
		a.regradeRoutes(),
		a.uploadRoutes(),
	)
	for i, rt := range all {
		all[i] = knownQuery(rt)
	}

	return all
}

// rolloutRoute returns a route about one rollout.
func rolloutRoute(path string, handle http.HandlerFunc, id, summary string, answers any) api.Route {
	return api.Get("/rollouts/{id}"+path, handle, &api.Operation{ID: id, Tag: tag, Summary: summary,
		Reads: rolloutRequest{}, Answers: answers, Refuses: api.EngineErrors(http.StatusNotFound)})
}

// finishedRoute returns a route to data of a finished rollout.
func finishedRoute(path string, handle http.HandlerFunc, id, summary string, answers any) api.Route {
	rt := rolloutRoute(path, handle, id, summary, answers)
	rt.Operation.Refuses = append(rt.Operation.Refuses, http.StatusConflict)

	return rt
}

const textPlain api.Media = "text/plain; charset=utf-8"

func (a *API) postRollout(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	text, err := a.Env.Call(r.Context(), tools.Call{Tool: "start_rollout", Args: args})
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	httpio.WriteBytes(w, http.StatusAccepted, text.JSON)
}

func (a *API) getRollout(w http.ResponseWriter, r *http.Request) {
	state, err := a.Rollouts.State(r.Context(), chi.URLParam(r, "id"))
	httpio.WriteAnswer(w, state, err)
}

// finishedState returns the state of the rollout that a request names, if it has finished.
func (a *API) finishedState(r *http.Request) (rollout.State, error) {
	state, err := a.Rollouts.State(r.Context(), chi.URLParam(r, "id"))
	if err == nil && !state.Done() {
		err = fault.New(fault.Conflict, "rollout %s is not done yet (%s)", state.ID, state.Phase)
	}

	return state, err
}

// head returns the head of the result of a finished rollout.
func (a *API) head(r *http.Request) (rollout.Result, error) {
	state, err := a.finishedState(r)
	if err != nil {
		return rollout.Result{}, err
	}

	return a.Rollouts.Wait(r.Context(), state.ID)
}

// Values of the parameter part of a result.
const (
	wholeResult = "all"
	resultHead  = "head"
)

func (a *API) resultRoute() api.Route {
	rt := finishedRoute(
		"/result",
		a.getResult,
		"get_result",
		"Get the result of a finished rollout. 409 while it runs",
		rollout.Result{},
	)
	rt.Operation.Reads = resultRequest{}

	return rt
}

func (a *API) getResult(w http.ResponseWriter, r *http.Request) {
	switch part := cmp.Or(r.URL.Query().Get("part"), wholeResult); part {
	case wholeResult:
	case resultHead:
		head, err := a.head(r)
		httpio.WriteAnswer(w, head.Head(), err)

		return
	default:
		httpio.WriteRefusal(w, fault.Field("part", "must be %s or %s, got %q", wholeResult, resultHead, part))
		return
	}

	stored, err := a.blobs(r, "result", "result")
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer stored.Close()

	writeBody(w, "application/json", func(w io.Writer) error {
		_, err := io.Copy(w, stored)
		return err
	})
}

func (a *API) getMessages(w http.ResponseWriter, r *http.Request) {
	x, ok := a.export(w, r, exportmemory.Messages)
	if !ok {
		return
	}
	defer x.leave()

	t, err := a.Rollouts.Messages(r.Context(), chi.URLParam(r, "id"))
	// decoded, encoded, and the encoder's previous buffer
	x.Shrink(3 * sizeOf(t))
	httpio.WriteAnswer(w, t, err)
}

// abortReason returns the reason for display.
func abortReason(args map[string]any) string {
	reason, _ := args["reason"].(string)
	return cmp.Or(strings.TrimSpace(reason), "abort requested over REST")
}

func (a *API) abortRollout(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	id := chi.URLParam(r, "id")
	aborted, err := a.Rollouts.Abort(r.Context(), id, abortReason(args))
	httpio.WriteAnswer(w, reply.AbortAnswer{RolloutID: id, Aborted: aborted}, err)
}
