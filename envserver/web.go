package envserver

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/envserver/internal/web"
	"github.com/rolloutd/rolloutd/internal/fault"
)

const (
	webTag  = "Web Interface"
	webHome = "/web/"
)

// webRoutes are the page for people and the routes that it uses, as the reference has them. An environment behind them is a
// session like any other: the one that a request names, else one for all requests of the caller that name none.
func (s *Server) webRoutes() []route {
	refuses := unserved(http.StatusNotFound, http.StatusConflict)
	bodied := unread(append(refuses, http.StatusUnprocessableEntity)...)
	return []route{
		{get, "/", toWeb, nil},
		{get, "/web", toWeb, nil},
		{get, webHome, s.page.ServeHTTP, nil},
		{get, webHome + `{part:[a-z]+\.(?:css|js)}`, s.page.ServeHTTP, nil},
		{get, "/web/metadata", s.metadata, &operation{id: "web_metadata_web_metadata_get", tag: webTag, summary: "What this environment is", answers: environmentMetadata{}}},
		{post, "/web/reset", s.webReset, &operation{id: "web_reset_web_reset_post", tag: webTag, summary: "Begin an episode in the web session",
			reads: webResetRequest{}, answers: resetResponse{}, refuses: bodied}},
		{post, "/web/step", s.webStep, &operation{id: "web_step_web_step_post", tag: webTag, summary: "Carry out one action in the web session",
			reads: webStepRequest{}, needsBody: true, answers: stepResponse{}, refuses: bodied}},
		{get, "/web/state", s.webState, &operation{id: "web_state_web_state_get", tag: webTag, summary: "State of the web session",
			reads: sessionRequest{}, answers: session.State{}, refuses: refuses}},
	}
}

func toWeb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", webHome)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// webSession finds the session of a request, and makes it if need be; done must be called after it.
func (s *Server) webSession(r *http.Request) (sess *session.Session, done func(), err error) {
	id := or(sessionOf(r), "web of "+callerOf(r.Context()).Name)
	return s.begun(r.Context(), id, false)
}

func (s *Server) webReset(w http.ResponseWriter, r *http.Request) {
	data, release, ok := s.body(w, r)
	if !ok {
		return
	}
	obj, found := dict(data)
	release()
	if len(found) > 0 {
		writeInvalid(w, found)
		return
	}
	sess, done, err := s.webSession(r)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	defer done()
	id, _ := obj["episode_id"].(string)
	attach, _ := obj["attach"].(bool)
	out, err := s.reset(r.Context(), sess, id, attach)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	s.desks.Of(sess).Reset()
	writeJSON(w, http.StatusOK, out)
}

func (s *Server) webStep(w http.ResponseWriter, r *http.Request) {
	data, release, ok := s.body(w, r)
	if !ok {
		return
	}
	a, found := readWebStep(data)
	release()
	if len(found) > 0 {
		writeInvalid(w, found)
		return
	}
	ctx, cancel := s.callContext(r)
	defer cancel()
	sess, done, err := s.webSession(r)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	defer done()
	out := s.step(ctx, sess, a, 0)
	s.keep(ctx, sess)
	s.log(sess, a, out)
	writeJSON(w, http.StatusOK, out)
}

// readWebStep reads {"action": …}; what has no action is one, as a chat box would send it.
func readWebStep(data []byte) (action, issue.List) {
	obj, found := dict(data)
	if len(found) > 0 {
		return action{}, found
	}
	if obj == nil {
		return action{}, issue.List{{Type: "missing", Loc: []any{"body"}, Msg: "Field required"}}
	}
	if _, there := obj["action"]; !there {
		return readAction(obj)
	}
	c := issue.Check(obj, "body")
	raw := c.Dict("action", true)
	if found := c.Found(false); len(found) > 0 {
		return action{}, found
	}
	return readAction(raw)
}

// dict is object, with the reference's words for a body of a plain dictionary.
func dict(data []byte) (map[string]any, issue.List) {
	obj, found := object(data)
	for i := range found {
		if found[i].Type == "model_attributes_type" {
			found[i].Type, found[i].Msg = "dict_type", "Input should be a valid dictionary"
		}
	}
	return obj, found
}

func (s *Server) webState(w http.ResponseWriter, r *http.Request) {
	sess, done, err := s.webSession(r)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	defer done()
	writeJSON(w, http.StatusOK, sess.State())
}

// maxShown bounds a result that the page's log holds, in bytes.
const maxShown = 2 << 20

// log puts a step on the session's desk, without the keys that its arguments may hold.
func (s *Server) log(sess *session.Session, a action, out stepResponse) {
	var did any = map[string]any{"type": "list_tools"}
	if !a.list {
		did = map[string]any{"type": "call_tool", "tool_name": a.ToolName, "arguments": pyjson.Plain(tools.Public(a.Arguments))}
	}
	if o, ok := out.Observation.(callObservation); ok && o.Result != nil && len(o.Result.text.Quoted) > maxShown {
		out.Observation = callObservation{ToolName: o.ToolName, Error: asToolError(fault.New(fault.Exhausted, "the result is too large to be shown here: read it from /rollouts/ID/result"))}
	}
	seen, err := pyjson.Encode(out.Observation)
	if err == nil {
		err = s.desks.Of(sess).Add(web.Entry{
			Timestamp: time.Now().UTC().Format("2006-01-02T15:04:05.000000"), Action: did,
			Observation: json.RawMessage(seen), Reward: out.Reward, Done: out.Done, StepCount: sess.State().StepCount,
		})
	}
	if err != nil {
		s.o.Logger.Warn("step not shown", "session", sess.ID, "error", err)
	}
}
