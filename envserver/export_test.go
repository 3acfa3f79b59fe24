package envserver

import "github.com/go-chi/chi/v5"

// Router returns the served routes, to compare them with the document.
func (s *Server) Router() chi.Routes { return s.router() }

// Views returns the number of sessions with a view.
func (s *Server) Views() int { return s.views.Len() }

// Described returns the OpenAPI document, which a client may need a token to fetch.
func (s *Server) Described() []byte { return s.described }
