package envserver

import "github.com/go-chi/chi/v5"

// Router is the routes as they are served: that they are the ones of the document cannot be seen from outside.
func (s *Server) Router() chi.Routes { return s.router() }

// Views is how many sessions have something to show.
func (s *Server) Views() int { return s.views.Len() }

// Described is the OpenAPI document, without the token that fetching it may need.
func (s *Server) Described() []byte { return s.described }
