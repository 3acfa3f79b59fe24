package envserver

import (
	"fmt"
	"strings"

	"github.com/go-chi/chi/v5"
)

// Router returns the served routes, to compare them with the document.
func (s *Server) Router() chi.Routes { return s.router() }

// Views returns the number of sessions with a view.
func (s *Server) Views() int { return s.views.Len() }

// Described returns the OpenAPI document, which a client may need a token to fetch.
func (s *Server) Described() ([]byte, error) { return s.described() }

// Outline names the routes of the OpenAPI document. Servers with equal ones describe the same answers.
func (s *Server) Outline() string {
	var outline strings.Builder

	d := s.document()
	for _, r := range d.Routes {
		fmt.Fprintln(&outline, r.Method, r.Path, r.Operation != nil, d.Secured(r.Path))
	}

	return outline.String()
}
