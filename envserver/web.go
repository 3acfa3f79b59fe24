package envserver

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/arguments"
	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
	"github.com/rolloutd/rolloutd/envserver/internal/web"
	"github.com/rolloutd/rolloutd/internal/fault"
)

const (
	webTag  = "Web Interface"
	webHome = "/web/"
)

// webRoutes are the page for people and the routes that it uses, as in the reference. They use the session
// that a request names, else one shared session of the caller.
func (s *Server) webRoutes() []api.Route {
	refuses := api.EngineErrors(http.StatusNotFound, http.StatusConflict)
	bodied := api.BodyErrors(append(refuses, http.StatusUnprocessableEntity)...)

	return []api.Route{
		api.Get("/", toWeb, nil),
		api.Get("/web", toWeb, nil),
		api.Get(webHome, s.page.ServeHTTP, nil),
		api.Get(webHome+`{part:[a-z]+\.(?:css|js)}`, s.page.ServeHTTP, nil),
		api.Get("/web/settings", s.webSettings, &api.Operation{
			ID:      "web_settings",
			Tag:     webTag,
			Summary: "Get what the page knows of the deployment",
			Answers: webSettings{},
			Refuses: api.EngineErrors(),
		}),
		api.Get("/web/metadata", s.metadata, &api.Operation{
			ID:      "web_metadata_web_metadata_get",
			Tag:     webTag,
			Summary: "Describe this environment",
			Answers: reply.EnvironmentMetadata{},
		}),
		api.Post("/web/reset", s.webReset, &api.Operation{
			ID:      "web_reset_web_reset_post",
			Tag:     webTag,
			Summary: "Start an episode in the web session",
			Reads:   webResetRequest{},
			Answers: reply.ResetResponse{},
			Refuses: bodied,
		}),
		api.Post("/web/step", s.webStep, &api.Operation{
			ID:        "web_step_web_step_post",
			Tag:       webTag,
			Summary:   "Run one action in the web session",
			Reads:     webStepRequest{},
			NeedsBody: true,
			Answers:   reply.StepResponse{},
			Refuses:   bodied,
		}),
		api.Get("/web/state", s.webState, &api.Operation{
			ID:      "web_state_web_state_get",
			Tag:     webTag,
			Summary: "Get the state of the web session",
			Reads:   sessionRequest{},
			Answers: session.State{},
			Refuses: refuses,
		}),
	}
}

// webSettings are what the page knows of the deployment.
type webSettings struct {
	// absent: no address of a UI is configured
	TemporalUI string `json:"temporal_ui,omitempty" description:"address of the workflows of the deployment in Temporal's UI, to which a workflow's id is added"`
}

func (s *Server) webSettings(w http.ResponseWriter, _ *http.Request) {
	httpio.WriteJSON(w, http.StatusOK, webSettings{s.o.TemporalUI})
}

func toWeb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", webHome)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// webSession returns the session of a request, creating it if needed; done must be called after it.
func (s *Server) webSession(r *http.Request) (sess *session.Session, done func(), err error) {
	id := cmp.Or(env.SessionOf(r), "web of "+access.CallerOf(r.Context()).Name)
	return s.env.SessionForReset(r.Context(), id, false)
}

func (s *Server) webReset(w http.ResponseWriter, r *http.Request) {
	args, ok := httpio.Decode(s.bodies, w, r, readWebReset)
	if !ok {
		return
	}

	sess, done, err := s.webSession(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer done()

	out, err := s.env.Reset(r.Context(), sess, args)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	s.views.Of(sess).Reset()
	httpio.WriteJSON(w, http.StatusOK, out)
}

func (s *Server) webStep(w http.ResponseWriter, r *http.Request) {
	a, ok := httpio.Decode(s.bodies, w, r, readWebStep)
	if !ok {
		return
	}

	ctx, cancel := s.callContext(r)
	defer cancel()

	sess, done, err := s.webSession(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer done()

	out, err := s.env.Step(ctx, sess, a, 0)
	s.env.SaveSession(ctx, sess)

	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	s.log(sess, a, out)
	httpio.WriteJSON(w, http.StatusOK, out)
}

func readWebReset(data []byte) (env.ResetArgs, validation.List) {
	obj, found := dict(data)
	if len(found) > 0 {
		return env.ResetArgs{}, found
	}

	return env.ReadReset(obj)
}

// readWebStep reads {"action": …}; a body without an action is one, as a chat box would send it.
func readWebStep(data []byte) (env.Action, validation.List) {
	obj, found := dict(data)
	if len(found) > 0 {
		return env.Action{}, found
	}

	if obj == nil {
		return env.Action{}, validation.List{{Type: "missing", Loc: []any{"body"}, Msg: "Field required"}}
	}

	if _, there := obj["action"]; !there {
		return env.ReadAction(obj)
	}

	c := validation.Check(obj, "body")

	raw := c.Dict("action", true)
	if found := c.Found(false); len(found) > 0 {
		return env.Action{}, found
	}

	return env.ReadAction(raw)
}

// dict is httpio.Object with the reference's error for a body that is not a dictionary.
func dict(data []byte) (map[string]any, validation.List) {
	obj, found := httpio.Object(data)
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
		httpio.WriteRefusal(w, err)
		return
	}
	defer done()

	s.writeState(w, r, sess)
}

// maxShown bounds a result in the page's log, in bytes.
const maxShown = 2 << 20

// log adds a step to the log of the session's page, without keys in its arguments.
func (s *Server) log(sess *session.Session, a env.Action, out reply.StepResponse) {
	var did any = map[string]any{"type": "list_tools"}
	if !a.List {
		did = map[string]any{
			"type":      "call_tool",
			"tool_name": a.ToolName,
			"arguments": arguments.Public(a.Arguments),
		}
	}

	if o, ok := out.Observation.(reply.CallObservation); ok && o.Result != nil && len(o.Result.Text.Quoted) > maxShown {
		out.Observation = reply.CallObservation{
			ToolName: o.ToolName,
			Error: reply.ToolErrorOf(
				fault.New(fault.Exhausted,
					"the result is too large to be shown here: read it from /rollouts/ID/result"),
			),
		}
	}

	seen, err := jsonvalue.Encode(out.Observation)
	if err == nil {
		err = s.views.Of(sess).Add(web.Entry{
			Timestamp: time.Now().UTC().Format("2006-01-02T15:04:05.000000"), Action: did,
			Observation: json.RawMessage(seen), Reward: out.Reward, Done: out.Done, StepCount: sess.State().StepCount,
		})
	}

	if err != nil {
		s.o.Logger.Warn("step not shown", "session", sess.ID, "error", err)
	}
}
