package envserver

import (
	"io"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const restTag = "Rollouts"

// restRoutes are rollouts as plain resources, for people and scripts, beside what OpenEnv has.
func (s *Server) restRoutes() []route {
	return []route{
		{post, "/rollouts", s.postRollout, &operation{id: "start_rollout", tag: restTag, summary: "Start a rollout; the body is the arguments of the tool start_rollout",
			reads: tools.RolloutArgs{}, needsBody: true, answers: tools.Started{}, status: http.StatusAccepted, refuses: unread(unserved(http.StatusUnprocessableEntity, http.StatusConflict)...)}},
		{get, "/rollouts", s.listRollouts, &operation{id: "list_rollouts", tag: restTag, summary: "List the caller's rollouts, those that run first; operators see all",
			reads: listRequest{}, answers: rollout.Page{}, refuses: unserved(http.StatusUnprocessableEntity)}},
		about("", s.getRollout, "get_rollout", "Where a rollout stands", rollout.State{}),
		about("/messages", s.getMessages, "get_messages", "The agent's latest transcript", rollout.Transcript{}),
		{get, "/rollouts/{id}/events", s.events, &operation{id: "get_events", tag: restTag, summary: "The phases of a rollout as they begin, and its end, as server-sent events; Last-Event-ID resumes",
			reads: eventsRequest{}, answers: media("text/event-stream"), refuses: unserved(http.StatusNotFound)}},
		left("/result", s.getResult, "get_result", "The result of a rollout that is done; 409 before", rollout.Result{}),
		s.traceRoute(),
		left("/logs/agent", s.agentLog, "get_agent_log", "What the agent's processes wrote; 409 before the rollout is done", textPlain),
		left("/logs/proxy", s.proxyLog, "get_proxy_log", "The end of the gateway's log; 409 before the rollout is done", textPlain),
		left("/logs/verifier", s.verifierLog, "get_verifier_log", "The verifier's output, then its errors, then what each verify command said; 409 before the rollout is done", textPlain),
		{post, "/rollouts/{id}/abort", s.abortRollout, &operation{id: "abort_rollout", tag: restTag, summary: "End a rollout early",
			reads: abortRequest{}, answers: abortAnswer{}, refuses: unread(unserved(http.StatusUnprocessableEntity, http.StatusNotFound)...)}},
	}
}

// about is a route that tells of one rollout.
func about(path string, handle http.HandlerFunc, id, summary string, answers any) route {
	return route{get, "/rollouts/{id}" + path, handle, &operation{id: id, tag: restTag, summary: summary,
		reads: rolloutRequest{}, answers: answers, refuses: unserved(http.StatusNotFound)}}
}

// left is a route to what a rollout leaves, which is not there until it is done.
func left(path string, handle http.HandlerFunc, id, summary string, answers any) route {
	rt := about(path, handle, id, summary, answers)
	rt.says.refuses = append(rt.says.refuses, http.StatusConflict)
	return rt
}

const textPlain media = "text/plain; charset=utf-8"

func (s *Server) postRollout(w http.ResponseWriter, r *http.Request) {
	data, release, ok := s.body(w, r)
	if !ok {
		return
	}
	args, found := object(data)
	release()
	if len(found) > 0 {
		writeInvalid(w, found)
		return
	}
	text, err := s.call(r.Context(), tools.Call{Tool: "start_rollout", Args: args})
	if err != nil {
		writeRefusal(w, err)
		return
	}
	writeBytes(w, http.StatusAccepted, text.JSON)
}

func answerWith(w http.ResponseWriter, v any, err error) {
	if err != nil {
		writeRefusal(w, err)
		return
	}
	writeJSON(w, http.StatusOK, v)
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
		writeRefusal(w, err)
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
	data, release, ok := s.body(w, r)
	if !ok {
		return
	}
	obj, found := object(data)
	release()
	if len(found) > 0 {
		writeInvalid(w, found)
		return
	}
	reason, _ := obj["reason"].(string)
	id := chi.URLParam(r, "id")
	aborted, err := s.o.Rollouts.Abort(r.Context(), id, or(strings.TrimSpace(reason), "asked over REST"))
	answerWith(w, abortAnswer{id, aborted}, err)
}
