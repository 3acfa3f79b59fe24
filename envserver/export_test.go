package envserver

import "github.com/go-chi/chi/v5"

// Router is the routes as they are served: that they are the ones of the document cannot be seen from outside.
func (s *Server) Router() chi.Routes { return s.router() }

// Desks is how many sessions have something to show.
func (s *Server) Desks() int { return s.desks.Len() }

// Described is the OpenAPI document, without the token that fetching it may need.
func (s *Server) Described() []byte { return s.described }
