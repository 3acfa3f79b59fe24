package envserver

import (
	"cmp"
	"io"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const restTag = "Rollouts"

// restRoutes are rollouts as plain resources, for people and scripts, beside what OpenEnv has.
func (s *Server) restRoutes() []api.Route {
	return []api.Route{
		api.Post("/rollouts", s.postRollout, &api.Operation{ID: "start_rollout", Tag: restTag, Summary: "Start a rollout; the body is the arguments of the tool start_rollout",
			Reads: tools.RolloutArgs{}, NeedsBody: true, Answers: tools.Started{}, Status: http.StatusAccepted, Refuses: api.Unread(api.Unserved(http.StatusUnprocessableEntity, http.StatusConflict)...)}),
		api.Get("/rollouts", s.listRollouts, &api.Operation{ID: "list_rollouts", Tag: restTag, Summary: "List the caller's rollouts, those that run first; operators see all",
			Reads: listRequest{}, Answers: rollout.Page{}, Refuses: api.Unserved(http.StatusUnprocessableEntity)}),
		about("", s.getRollout, "get_rollout", "Where a rollout stands", rollout.State{}),
		about("/messages", s.getMessages, "get_messages", "The agent's latest transcript", rollout.Transcript{}),
		api.Get("/rollouts/{id}/events", s.events, &api.Operation{ID: "get_events", Tag: restTag, Summary: "The phases of a rollout as they begin, and its end, as server-sent events; Last-Event-ID resumes",
			Reads: eventsRequest{}, Answers: api.Media("text/event-stream"), Refuses: api.Unserved(http.StatusNotFound)}),
		left("/result", s.getResult, "get_result", "The result of a rollout that is done; 409 before", rollout.Result{}),
		s.traceRoute(),
		left("/logs/agent", s.agentLog, "get_agent_log", "What the agent's processes wrote; 409 before the rollout is done", textPlain),
		left("/logs/proxy", s.proxyLog, "get_proxy_log", "The end of the gateway's log; 409 before the rollout is done", textPlain),
		left("/logs/verifier", s.verifierLog, "get_verifier_log", "The verifier's output, then its errors, then what each verify command said; 409 before the rollout is done", textPlain),
		api.Post("/rollouts/{id}/abort", s.abortRollout, &api.Operation{ID: "abort_rollout", Tag: restTag, Summary: "End a rollout early",
			Reads: abortRequest{}, Answers: reply.AbortAnswer{}, Refuses: api.Unread(api.Unserved(http.StatusUnprocessableEntity, http.StatusNotFound)...)}),
	}
}

// about is a route that tells of one rollout.
func about(path string, handle http.HandlerFunc, id, summary string, answers any) api.Route {
	return api.Get("/rollouts/{id}"+path, handle, &api.Operation{ID: id, Tag: restTag, Summary: summary,
		Reads: rolloutRequest{}, Answers: answers, Refuses: api.Unserved(http.StatusNotFound)})
}

// left is a route to what a rollout leaves, which is not there until it is done.
func left(path string, handle http.HandlerFunc, id, summary string, answers any) api.Route {
	rt := about(path, handle, id, summary, answers)
	rt.Says.Refuses = append(rt.Says.Refuses, http.StatusConflict)
	return rt
}

const textPlain api.Media = "text/plain; charset=utf-8"

func (s *Server) postRollout(w http.ResponseWriter, r *http.Request) {
	data, release, ok := s.bodies.Read(w, r)
	if !ok {
		return
	}
	args, found := httpio.Object(data)
	release()
	if len(found) > 0 {
		httpio.WriteInvalid(w, found)
		return
	}
	text, err := s.env.Call(r.Context(), tools.Call{Tool: "start_rollout", Args: args})
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	httpio.WriteBytes(w, http.StatusAccepted, text.JSON)
}

func answerWith(w http.ResponseWriter, v any, err error) {
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	httpio.WriteJSON(w, http.StatusOK, v)
}

func (s *Server) getRollout(w http.ResponseWriter, r *http.Request) {
	state, err := s.o.Rollouts.State(r.Context(), chi.URLParam(r, "id"))
	answerWith(w, state, err)
}

// done is the state of the rollout that a request names, if it is done; what a running one will leave is not there yet.
func (s *Server) done(r *http.Request) (rollout.State, error) {
	state, err := s.o.Rollouts.State(r.Context(), chi.URLParam(r, "id"))
	if err == nil && !state.Done() {
		err = fault.New(fault.Conflict, "rollout %s is not done yet (%s): follow /rollouts/%s/events and ask again", state.ID, state.Phase, state.ID)
	}
	return state, err
}

// head is the head of the result of a rollout that is done.
func (s *Server) head(r *http.Request) (rollout.Result, error) {
	state, err := s.done(r)
	if err != nil {
		return rollout.Result{}, err
	}
	return s.o.Rollouts.Wait(r.Context(), state.ID)
}

func (s *Server) getResult(w http.ResponseWriter, r *http.Request) {
	stored, err := s.leftBy(r, "result", "result")
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer stored.Close()
	pour(w, "application/json", func(w io.Writer) error {
		_, err := io.Copy(w, stored)
		return err
	})
}

func (s *Server) getMessages(w http.ResponseWriter, r *http.Request) {
	t, err := s.o.Rollouts.Messages(r.Context(), chi.URLParam(r, "id"))
	answerWith(w, t, err)
}

func (s *Server) abortRollout(w http.ResponseWriter, r *http.Request) {
	data, release, ok := s.bodies.Read(w, r)
	if !ok {
		return
	}
	obj, found := httpio.Object(data)
	release()
	if len(found) > 0 {
		httpio.WriteInvalid(w, found)
		return
	}
	reason, _ := obj["reason"].(string)
	id := chi.URLParam(r, "id")
	aborted, err := s.o.Rollouts.Abort(r.Context(), id, cmp.Or(strings.TrimSpace(reason), "asked over REST"))
	answerWith(w, reply.AbortAnswer{RolloutID: id, Aborted: aborted}, err)
}
