package envserver

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/envserver/internal/episodes"
	"github.com/rolloutd/rolloutd/envserver/internal/executor"
	"github.com/rolloutd/rolloutd/envserver/internal/harbor"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// mountPath is the path of the environments below the root.
const mountPath = "/env/"

// mount creates the servers of the environments. Each is a full OpenEnv server with its own sessions.
func (s *Server) mount(table *tools.Table, harborEnv *harbor.Env) error {
	s.mounted = map[string]*Server{}
	for _, e := range s.o.Environments {
		o := s.o
		o.Name, o.Description, o.Readme = e.Name, e.Description, ""

		o.Web, o.Environments = false, nil
		if o.Sessions != nil {
			o.Sessions = session.Prefixed(e.Name+"-", o.Sessions)
		}

		player := episodes.New(episodes.Options{
			Rollouts: o.Rollouts,
			Episodes: o.Episodes,
			Table:    table,
			Tools:    e.Tools,
			Defaults: e.Defaults,
			Tasks:    e.Tasks,
			Logger:   o.Logger,
		})
		if err := s.mountAt(e.Name, o, parts{
			table:     table,
			room:      s.exports,
			player:    player,
			metricsOf: s.env,
		}); err != nil {
			return err
		}
	}

	return s.mountHarbor(harborEnv)
}

func (s *Server) mountAt(name string, o Options, p parts) error {
	p.base = mountPath + name

	m, err := newServer(o, p)
	if err != nil {
		return fmt.Errorf("environment %s: %w", name, err)
	}

	s.mounted[name] = m

	return nil
}

const (
	// the name of HarborEnv's environment in its path
	harborName = "harbor"
	// harborSessions is its least number of sessions: each is a call that waits for a rollout, and rollouts
	// queue for the hosts' slots.
	harborSessions = 1024
)

// harborEnv returns the environment of HarborEnv's clients; nil: none.
func (o Options) harborEnv(table *tools.Table) *harbor.Env {
	if o.Harbor == nil {
		return nil
	}

	return harbor.New(harbor.Options{
		Table: table, Rollouts: o.Rollouts, Resolve: o.Resolve, Agents: o.Agents, Backends: o.Backends,
		Sets: o.TaskSets, First: o.Harbor.TaskSet, Defaults: o.Harbor.Arguments,
	})
}

// mountHarbor makes the server that is for HarborEnv's clients alone.
func (s *Server) mountHarbor(e *harbor.Env) error {
	if e == nil {
		return nil
	}

	o := s.o
	o.Name, o.Description, o.Readme = "HarborEnvironment", "Runs agents on the tasks of task sets, as OpenEnv's HarborEnv does.", ""
	o.Web, o.Environments = false, nil

	o.MaxSessions = max(o.MaxSessions, harborSessions)
	if o.Sessions != nil {
		o.Sessions = session.Prefixed(harborName+"-", o.Sessions)
	}

	own, err := e.Table()
	if err != nil {
		return fmt.Errorf("environment %s: %w", harborName, err)
	}

	return s.mountAt(harborName, o, parts{table: own, room: s.exports, harbor: e, metricsOf: s.env})
}

// mountedAt returns the handler of a path below an environment; nil: another path.
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
		Episodes: s.o.Episodes,
		Rollouts: s.o.Rollouts,
		Table:    s.env.Tools,
		Keeper:   s.o.Sessions,
		Bodies:   s.bodies,
		Context:  s.callContext,
	}
}
