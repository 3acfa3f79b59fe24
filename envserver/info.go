package envserver

import (
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	httpio.WriteJSON(w, http.StatusOK, reply.HealthResponse{Status: "healthy"})
}

func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	httpio.WriteJSON(w, http.StatusOK, reply.EnvironmentMetadata{
		Name:        s.o.Name,
		Description: s.o.Description,
		Version:     &s.o.Version,
		Readme:      s.readme(),
	})
}

func (s *Server) schema(w http.ResponseWriter, _ *http.Request) {
	httpio.WriteJSON(w, http.StatusOK, s.schemas)
}

func (s *Server) readme() *string {
	if s.o.Readme == "" {
		return nil
	}

	return &s.o.Readme
}

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	text, err := s.described()
	if err != nil {
		httpio.WriteDetail(w, http.StatusInternalServerError, "Internal Server Error")
		return
	}

	httpio.WriteBytes(w, http.StatusOK, text)
}

func (s *Server) document() api.Document {
	d := api.Document{Description: s.o.Description, Routes: s.routes(), Start: s.env.Tools.Start().InputSchema}
	if tool, ok := s.env.Tools.Group(); ok {
		d.Group = tool.InputSchema
	}

	d.Secured = func(path string) bool { return len(s.o.Tokens) > 0 && !s.public(path) }

	return d
}

// docs serves a page for people: the routes and the tools, made from the same tables that serve them.
func (s *Server) docs(w http.ResponseWriter, _ *http.Request) {
	page, err := api.DocsPage{
		Name:        s.o.Name,
		Version:     s.o.Version,
		Description: s.o.Description,
	}.Render(s.routes(), s.env.Tools.List())
	if err != nil {
		s.o.Logger.Error("render /docs", "err", err)
		httpio.WriteDetail(w, http.StatusInternalServerError, "Internal Server Error")

		return
	}

	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// the client may be gone
	_, _ = w.Write(page)
}

// schemas makes the schemas of /schema from the Go types of the wire.
func schemas(episodes bool) (a reply.SchemaResponse, err error) {
	var observation, state any = reply.ObservationModel{}, session.State{}
	if episodes {
		observation, state = reply.PlayModel{}, env.EpisodeState{}
	}

	for _, m := range []struct {
		into  *map[string]any
		model any
	}{{&a.Action, env.CallAction{}}, {&a.Observation, observation}, {&a.State, state}} {
		if *m.into, err = api.SchemaOf(m.model); err != nil {
			return a, err
		}
	}

	return a, nil
}
