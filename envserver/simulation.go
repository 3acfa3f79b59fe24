package envserver

import (
	"cmp"
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
)

// maxID is the longest episode_id or request_id taken over HTTP, in characters.
const maxID = 255

func (s *Server) simulationRoutes() []api.Route {
	refuses := api.EngineErrors(http.StatusNotFound, http.StatusConflict)

	return []api.Route{
		api.Post("/reset", s.resetPost, &api.Operation{
			ID:      "reset_reset_post",
			Tag:     "Environment Control",
			Summary: "Start an episode",
			Reads:   resetRequest{},
			Answers: reply.ResetResponse{},
			Refuses: api.BodyErrors(append(refuses, http.StatusUnprocessableEntity)...),
		}),
		api.Post("/step", s.stepPost, &api.Operation{
			ID:        "step_step_post",
			Tag:       "Environment Control",
			Summary:   "Run one action",
			Reads:     stepRequest{},
			NeedsBody: true,
			Answers:   reply.StepResponse{},
			Refuses:   api.BodyErrors(append(refuses, http.StatusUnprocessableEntity)...),
		}),
		api.Get("/state", s.stateGet, &api.Operation{
			ID:      "endpoint_state_get",
			Tag:     "State Management",
			Summary: "Get the state of a session; without a session, of a new environment",
			Reads:   sessionRequest{},
			Answers: session.State{},
			Refuses: refuses,
		}),
	}
}

// The three HTTP routes of the simulation mode are stateless, as in the reference: each request has an
// environment of its own that takes no slot. A request that names a session uses that session.

func (s *Server) resetPost(w http.ResponseWriter, r *http.Request) {
	in, ok := httpio.Decode(s.bodies, w, r, readReset)
	if !ok {
		return
	}

	sess, done, err := s.env.SessionForReset(r.Context(), cmp.Or(env.SessionOf(r), in.sessionID), in.Attach)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer done()

	ctx, cancel := s.callContext(r)
	defer cancel()

	out, err := s.env.Reset(ctx, sess, in.ResetArgs)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	out.Metadata = reply.NullMetadata{}
	httpio.WriteJSON(w, http.StatusOK, out)
}

// sessionReset is a resetBody that was read.
type sessionReset struct {
	env.ResetArgs
	sessionID string
}

// readReset reads a reset request, whose members are all optional.
func readReset(data []byte) (in sessionReset, found validation.List) {
	in.Args, found = httpio.Object(data)
	c := validation.Check(in.Args, "body")
	c.NaturalInt("seed")
	in.EpisodeID, _ = c.OptionalString("episode_id", maxID)
	in.sessionID, _ = c.OptionalString("session_id", maxID)
	in.Attach = c.OptionalBool("attach")

	return in, append(found, c.Found(false)...)
}

func (s *Server) stepPost(w http.ResponseWriter, r *http.Request) {
	in, ok := httpio.Decode(s.bodies, w, r, readStep)
	if !ok {
		return
	}

	ctx, cancel := s.callContext(r)
	defer cancel()

	sess, done, err := s.env.SessionFor(ctx, cmp.Or(env.SessionOf(r), in.sessionID))
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer done()

	w, stop := httpio.KeepAlive(w, s.o.PingInterval)
	defer stop()

	out, err := s.env.Step(ctx, sess, in.Action, 0)
	s.env.SaveSession(ctx, sess)

	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	out.Metadata = reply.NullMetadata{}
	httpio.WriteJSON(w, http.StatusOK, out)
}

// sessionStep is a stepBody that was read.
type sessionStep struct {
	env.Action
	sessionID string
}

// readStep reads a step request; timeout_s and request_id beside the action take precedence over those in its metadata.
func readStep(data []byte) (in sessionStep, found validation.List) {
	obj, found := httpio.Object(data)
	if found != nil {
		return in, found
	}

	if obj == nil {
		return in, validation.List{{Type: "missing", Loc: []any{"body"}, Msg: "Field required"}}
	}

	c := validation.Check(obj, "body")
	action := c.Dict("action", true)
	timeout, timed := c.Positive("timeout_s")
	requestID, _ := c.OptionalString("request_id", maxID)

	in.sessionID, _ = c.OptionalString("session_id", maxID)
	if found := c.Found(false); len(found) > 0 {
		return in, found
	}

	in.Action, found = env.ReadAction(action)
	if timed {
		in.Limit = env.SecondsLimit(timeout)
	}

	if requestID != "" {
		in.RequestID = env.RequestID(requestID)
	}

	return in, found
}

// stateGet answers with the state of the named session, or of a new environment.
func (s *Server) stateGet(w http.ResponseWriter, r *http.Request) {
	sess, done, err := s.env.SessionFor(r.Context(), env.SessionOf(r))
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer done()

	s.writeState(w, r, sess)
}

func (s *Server) writeState(w http.ResponseWriter, r *http.Request, sess *session.Session) {
	state, err := s.env.State(r.Context(), sess)
	httpio.WriteAnswer(w, state, err)
}
