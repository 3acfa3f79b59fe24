package envserver

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	restTag  = "Rollouts"
	pageSize = 50
	maxPage  = 1000
)

// restRoutes are rollouts as plain resources, for people and scripts, beside what OpenEnv has.
func (s *Server) restRoutes() []route {
	get, post := http.MethodGet, http.MethodPost
	return []route{
		{post, "/rollouts", s.postRollout, "start_rollout", restTag, "Start a rollout; the body is the arguments of the tool start_rollout"},
		{get, "/rollouts", s.listRollouts, "list_rollouts", restTag, "List rollouts, newest first (operators only)"},
		{get, "/rollouts/{id}", s.getRollout, "get_rollout", restTag, "Where a rollout stands"},
		{get, "/rollouts/{id}/result", s.getResult, "get_result", restTag, "The result of a rollout that is done; 409 before"},
		{get, "/rollouts/{id}/trace", s.blob("trace", "application/x-ndjson"), "get_trace", restTag, "Every model call of a rollout that is done, as JSON lines; 409 before"},
		{get, "/rollouts/{id}/messages", s.getMessages, "get_messages", restTag, "The agent's latest transcript"},
		{get, "/rollouts/{id}/events", s.events, "get_events", restTag, "The phases of a rollout as they begin, and its end, as server-sent events; Last-Event-ID resumes"},
		{get, "/rollouts/{id}/logs/agent", s.blob("agent", textPlain, "agent"), "get_agent_log", restTag, "What the agent's processes wrote; 409 before the rollout is done"},
		{get, "/rollouts/{id}/logs/proxy", s.proxyLog, "get_proxy_log", restTag, "The end of the gateway's log; 409 before the rollout is done"},
		{get, "/rollouts/{id}/logs/verifier", s.blob("verifier", textPlain, "verifier.stdout", "verifier.stderr"), "get_verifier_log", restTag, "The verifier's output, then its errors; 409 before the rollout is done"},
		{post, "/rollouts/{id}/abort", s.abortRollout, "abort_rollout", restTag, "End a rollout early"},
	}
}

const textPlain = "text/plain; charset=utf-8"

func (s *Server) postRollout(w http.ResponseWriter, r *http.Request) {
	data, ok := s.body(w, r)
	if !ok {
		return
	}
	args, found := object(data)
	if len(found) > 0 {
		writeDetail(w, http.StatusUnprocessableEntity, found)
		return
	}
	text, err := s.call(r.Context(), tools.Call{Tool: "start_rollout", Args: args})
	if err != nil {
		writeRefusal(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, text) // a client that is gone cannot be told
}

func (s *Server) listRollouts(w http.ResponseWriter, r *http.Request) {
	if callerOf(r.Context()).Scope != ScopeOperator {
		writeDetail(w, http.StatusForbidden, "the token of an operator is needed to list rollouts")
		return
	}
	q := r.URL.Query()
	limit, err := strconv.Atoi(or(q.Get("limit"), strconv.Itoa(pageSize)))
	if err != nil || limit < 1 || limit > maxPage {
		writeRefusal(w, fault.Field("limit", "want a whole number from 1 to %d, got %q", maxPage, q.Get("limit")))
		return
	}
	page, err := s.o.Rollouts.List(r.Context(), rollout.Filter{
		Status: q.Get("status"), TaskID: q.Get("task_id"), GroupID: q.Get("group_id"),
		Outcome: rollout.Outcome(q.Get("outcome")), Limit: limit, Cursor: q.Get("cursor"),
	})
	answerWith(w, page, err)
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

func (s *Server) result(r *http.Request) (rollout.Result, error) {
	state, err := s.done(r)
	if err != nil {
		return rollout.Result{}, err
	}
	return s.o.Rollouts.Wait(r.Context(), state.ID)
}

func (s *Server) getResult(w http.ResponseWriter, r *http.Request) {
	res, err := s.result(r)
	answerWith(w, res, err)
}

func (s *Server) getMessages(w http.ResponseWriter, r *http.Request) {
	t, err := s.o.Rollouts.Messages(r.Context(), chi.URLParam(r, "id"))
	answerWith(w, t, err)
}

func (s *Server) proxyLog(w http.ResponseWriter, r *http.Request) {
	res, err := s.result(r)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	w.Header().Set("Content-Type", textPlain)
	_, _ = io.WriteString(w, res.ProxyLogTail) // a client that is gone cannot be told
}

// blob writes what a finished rollout left under the names, one after another; without names, under what itself. Names that it left
// nothing under are passed over, unless all are.
func (s *Server) blob(what, media string, names ...string) http.HandlerFunc {
	if len(names) == 0 {
		names = []string{what}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		state, err := s.done(r)
		var parts []io.Reader
		for _, name := range names {
			if err != nil {
				break
			}
			part, openErr := s.o.Rollouts.Open(r.Context(), state.ID, name)
			if openErr == nil {
				defer part.Close()
				parts = append(parts, part)
			} else if !fault.Is(openErr, fault.NotFound) {
				err = openErr
			}
		}
		if err == nil && len(parts) == 0 {
			err = fault.New(fault.NotFound, "rollout %s left no %s", state.ID, what)
		}
		if err != nil {
			writeRefusal(w, err)
			return
		}
		w.Header().Set("Content-Type", media)
		if _, err := io.Copy(w, io.MultiReader(parts...)); err != nil {
			panic(http.ErrAbortHandler) // the answer has begun: the client must see that it is cut
		}
	}
}

func (s *Server) abortRollout(w http.ResponseWriter, r *http.Request) {
	data, ok := s.body(w, r)
	if !ok {
		return
	}
	obj, found := object(data)
	if len(found) > 0 {
		writeDetail(w, http.StatusUnprocessableEntity, found)
		return
	}
	reason, _ := obj["reason"].(string)
	id := chi.URLParam(r, "id")
	aborted, err := s.o.Rollouts.Abort(r.Context(), id, or(strings.TrimSpace(reason), "asked over REST"))
	answerWith(w, map[string]any{"rollout_id": id, "aborted": aborted}, err)
}

// mediaOf is the media type of an answer that is not JSON.
func mediaOf(path string) string {
	switch {
	case strings.HasSuffix(path, "/events"):
		return "text/event-stream"
	case strings.HasSuffix(path, "/trace"):
		return "application/x-ndjson"
	case strings.Contains(path, "/logs/"):
		return "text/plain"
	default:
		return ""
	}
}

// parametersOf are the parameters of a REST route.
func parametersOf(rt route) []doc {
	text := doc{"type": "string"}
	var out []doc
	if strings.Contains(rt.path, "{id}") {
		out = append(out, doc{"name": "id", "in": "path", "required": true, "schema": text, "description": "id of the rollout"})
	}
	if rt.id == "list_rollouts" {
		for _, p := range []struct{ name, says string }{
			{"status", "running or done"}, {"task_id", ""}, {"group_id", ""}, {"outcome", ""},
			{"limit", fmt.Sprintf("rollouts of a page, at most %d", maxPage)}, {"cursor", "next of the page before"},
		} {
			out = append(out, doc{"name": p.name, "in": "query", "required": false, "schema": text, "description": p.says})
		}
	}
	return out
}
