package envserver

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/envserver/internal/executor"
	"github.com/rolloutd/rolloutd/envserver/internal/play"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// mountPath is where environments of interactive episodes are mounted.
const mountPath = "/env/"

// mount makes the servers of the environments. Each is a whole OpenEnv server with sessions of its own.
func (s *Server) mount(table *tools.Table) error {
	s.mounted = map[string]*Server{}
	for _, e := range s.o.Environments {
		o := s.o
		o.Name, o.Description, o.Readme = e.Name, e.Description, ""
		o.Web, o.Environments = false, nil
		if o.Sessions != nil {
			o.Sessions = session.Prefixed(e.Name+"-", o.Sessions)
		}
		m, err := newServer(o, table, s.exports, play.New(play.Options{
			Rollouts: o.Rollouts, Episodes: o.Episodes, Table: table, Tools: e.Tools, Defaults: e.Defaults, Tasks: e.Tasks, Logger: o.Logger,
		}), s.env)
		if err != nil {
			return fmt.Errorf("environment %s: %w", e.Name, err)
		}
		m.base = mountPath + e.Name
		s.mounted[e.Name] = m
	}
	return nil
}

// mountedAt is the handler of a path below an environment; nil for other paths.
func (s *Server) mountedAt(path string) http.Handler {
	below, ok := strings.CutPrefix(path, mountPath)
	if !ok {
		return nil
	}
	name, _, slash := strings.Cut(below, "/")
	m := s.mounted[name]
	switch {
	case m == nil:
		return nil
	case !slash:
		return http.RedirectHandler(m.base+"/", http.StatusTemporaryRedirect)
	default:
		return http.StripPrefix(m.base, m)
	}
}

// executor is the API of agents that own their loop.
func (s *Server) executor() *executor.API {
	return &executor.API{
		Episodes: s.o.Episodes, Rollouts: s.o.Rollouts, Table: s.env.Tools, Keeper: s.o.Sessions, Bodies: s.bodies, Context: s.callContext,
	}
}
