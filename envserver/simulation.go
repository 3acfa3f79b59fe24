package envserver

import (
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// maxID is the longest episode_id or request_id taken over HTTP, in characters.
const maxID = 255

func (s *Server) simulationRoutes() []route {
	refuses := unserved(http.StatusNotFound, http.StatusConflict)
	return []route{
		{post, "/reset", s.resetPost, &operation{id: "reset_reset_post", tag: "Environment Control", summary: "Begin an episode in an environment of its own",
			reads: resetRequest{}, answers: resetResponse{}, refuses: unread(append(refuses, http.StatusUnprocessableEntity)...)}},
		{post, "/step", s.stepPost, &operation{id: "step_step_post", tag: "Environment Control", summary: "Carry out one action in an environment of its own",
			reads: stepRequest{}, needsBody: true, answers: stepResponse{}, refuses: unread(append(refuses, http.StatusUnprocessableEntity)...)}},
		{get, "/state", s.stateGet, &operation{id: "endpoint_state_get", tag: "State Management", summary: "State of the session that is named, else of a fresh environment",
			reads: sessionRequest{}, answers: session.State{}, refuses: refuses}},
	}
}

// The three HTTP routes of the simulation mode are stateless, as in the reference: each has an environment of its own that
// ends with the request and takes no slot. A request that names a session is carried out in that one.

func (s *Server) resetPost(w http.ResponseWriter, r *http.Request) {
	data, release, ok := s.body(w, r)
	if !ok {
		return
	}
	in, found := readReset(data)
	release()
	if len(found) > 0 {
		writeInvalid(w, found)
		return
	}
	sess, done, err := s.begun(r.Context(), or(sessionOf(r), in.SessionID), in.Attach)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	defer done()
	out, err := s.reset(r.Context(), sess, in.EpisodeID, in.Attach)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// readReset reads a reset request, whose members are all optional.
func readReset(data []byte) (resetBody, issue.List) {
	obj, found := object(data)
	c := issue.Check(obj, "body")
	var in resetBody
	c.NaturalInt("seed")
	in.EpisodeID, _ = c.OptionalString("episode_id", maxID)
	in.SessionID, _ = c.OptionalString("session_id", maxID)
	in.Attach, _ = c.Any("attach").(bool)
	return in, append(found, c.Found(false)...)
}

func (s *Server) stepPost(w http.ResponseWriter, r *http.Request) {
	data, release, ok := s.body(w, r)
	if !ok {
		return
	}
	in, a, found := readStep(data)
	release()
	if len(found) > 0 {
		writeInvalid(w, found)
		return
	}
	ctx, cancel := s.callContext(r)
	defer cancel()
	sess, done, err := s.sessionFor(ctx, or(sessionOf(r), in.SessionID))
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
func readStep(data []byte) (in stepBody, a action, found issue.List) {
	obj, found := object(data)
	if found != nil {
		return in, a, found
	}
	if obj == nil {
		return in, a, issue.List{{Type: "missing", Loc: []any{"body"}, Msg: "Field required"}}
	}
	c := issue.Check(obj, "body")
	in.Action = c.Dict("action", true)
	timeout, timed := c.Positive("timeout_s")
	in.RequestID, _ = c.OptionalString("request_id", maxID)
	in.SessionID, _ = c.OptionalString("session_id", maxID)
	if found := c.Found(false); len(found) > 0 {
		return in, a, found
	}
	a, found = readAction(in.Action)
	if timed {
		in.TimeoutS, a.limit = timeout, secondsLimit(timeout)
	}
	return in, a, found
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
