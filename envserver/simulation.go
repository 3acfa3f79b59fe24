package envserver

import (
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
)

// maxID is the longest episode_id or request_id taken over HTTP, in characters.
const maxID = 255

// The three HTTP routes of the simulation mode are stateless, as in the reference: each has an environment of its own that
// ends with the request and takes no slot. A request that names a session is carried out in that one.

func (s *Server) resetPost(w http.ResponseWriter, r *http.Request) {
	data, ok := s.body(w, r)
	if !ok {
		return
	}
	obj, found := object(data)
	c := issue.Check(obj, "body")
	c.NaturalInt("seed")
	id, _ := c.OptionalString("episode_id", maxID)
	asked, _ := c.OptionalString("session_id", maxID)
	attach, _ := c.Any("attach").(bool)
	if found = append(found, c.Found(false)...); len(found) > 0 {
		writeDetail(w, http.StatusUnprocessableEntity, found)
		return
	}
	where := or(sessionOf(r), asked)
	sess, done, err := s.begun(r.Context(), where, attach)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	defer done()
	out, err := s.reset(r.Context(), sess, id, attach)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *Server) stepPost(w http.ResponseWriter, r *http.Request) {
	data, ok := s.body(w, r)
	if !ok {
		return
	}
	a, asked, found := readStep(data)
	if len(found) > 0 {
		writeDetail(w, http.StatusUnprocessableEntity, found)
		return
	}
	ctx, cancel := s.callContext(r)
	defer cancel()
	sess, done, err := s.sessionFor(ctx, or(sessionOf(r), asked))
	if err != nil {
		writeRefusal(w, err)
		return
	}
	defer done()
	out := s.step(ctx, sess, a, 0)
	s.keep(ctx, sess)
	writeJSON(w, http.StatusOK, out)
}

// readStep reads a step request; timeout_s beside the action wins over the one in its metadata.
func readStep(data []byte) (a action, sessionID string, found issue.List) {
	obj, found := object(data)
	if found != nil {
		return action{}, "", found
	}
	if obj == nil {
		return action{}, "", issue.List{{Type: "missing", Loc: []any{"body"}, Msg: "Field required"}}
	}
	c := issue.Check(obj, "body")
	raw := c.Dict("action", true)
	timeout, timed := c.Positive("timeout_s")
	c.OptionalString("request_id", maxID)
	sessionID, _ = c.OptionalString("session_id", maxID)
	if found := c.Found(false); len(found) > 0 {
		return action{}, "", found
	}
	a, found = readAction(raw)
	if timed {
		a.limit = secondsLimit(timeout)
	}
	return a, sessionID, found
}

// stateGet answers with the state of the session that is named, else of a fresh environment: there is none to ask.
func (s *Server) stateGet(w http.ResponseWriter, r *http.Request) {
	sess, done, err := s.sessionFor(r.Context(), sessionOf(r))
	if err != nil {
		writeRefusal(w, err)
		return
	}
	defer done()
	writeJSON(w, http.StatusOK, sess.State())
}
