package envserver

import (
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// maxID is the longest episode_id or request_id taken over HTTP, in characters.
const maxID = 255

// The three HTTP routes of the simulation mode are stateless, as in the reference: each has an environment of its own that
// ends with the request and takes no slot.

func (s *Server) resetPost(w http.ResponseWriter, r *http.Request) {
	data, ok := s.body(w, r)
	if !ok {
		return
	}
	obj, found := object(data)
	c := issue.Check(obj, "body")
	c.NaturalInt("seed")
	id, _ := c.OptionalString("episode_id", maxID)
	if found = append(found, c.Found(false)...); len(found) > 0 {
		writeDetail(w, http.StatusUnprocessableEntity, found)
		return
	}
	sess := session.Transient()
	defer sess.Close(session.ErrClosed)
	writeJSON(w, http.StatusOK, s.reset(sess, id))
}

func (s *Server) stepPost(w http.ResponseWriter, r *http.Request) {
	data, ok := s.body(w, r)
	if !ok {
		return
	}
	a, found := readStep(data)
	if len(found) > 0 {
		writeDetail(w, http.StatusUnprocessableEntity, found)
		return
	}
	ctx, cancel := s.callContext(r)
	defer cancel()
	sess := session.Transient()
	defer sess.Close(session.ErrClosed)
	writeJSON(w, http.StatusOK, s.step(ctx, sess, a, 0))
}

// readStep reads a step request; timeout_s beside the action wins over the one in its metadata.
func readStep(data []byte) (action, issue.List) {
	obj, found := object(data)
	if found != nil {
		return action{}, found
	}
	if obj == nil {
		return action{}, issue.List{{Type: "missing", Loc: []any{"body"}, Msg: "Field required"}}
	}
	c := issue.Check(obj, "body")
	raw := c.Dict("action", true)
	timeout, timed := c.Positive("timeout_s")
	c.OptionalString("request_id", maxID)
	if found := c.Found(false); len(found) > 0 {
		return action{}, found
	}
	a, found := readAction(raw)
	if timed {
		a.limit = secondsLimit(timeout)
	}
	return a, found
}

// stateGet answers with the state of a fresh environment: there is none to ask.
func (s *Server) stateGet(w http.ResponseWriter, _ *http.Request) {
	sess := session.Transient()
	defer sess.Close(session.ErrClosed)
	writeJSON(w, http.StatusOK, sess.State())
}
