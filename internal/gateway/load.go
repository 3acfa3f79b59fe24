package gateway

import (
	"errors"
	"fmt"
	"os"
)

// load opens every journalled route, and drops the records that none of them has: what a crash left of routes being closed.
// Where a route could not be opened none are dropped, for they may be its.
func (s *Server) load() error {
	if n := s.traces.Damaged(); n > 0 {
		s.log.Error("trace has damaged records", "count", n)
	}
	all, err := s.loadRoutes()
	if err != nil {
		return err
	}
	s.report.routes.Set(float64(len(s.routes)))
	if !all {
		return nil
	}
	kept := map[string]bool{}
	for _, r := range s.routes {
		kept[r.journal.Trace] = true
	}
	return s.traces.Retain(func(key string) bool { return kept[key] })
}

// loadRoutes opens the routes; nobody else has the server yet. A folder without a journal is what a crash left of a route being
// opened or closed. A route that cannot be opened is left alone, and out: the others must not suffer.
func (s *Server) loadRoutes() (all bool, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return false, fmt.Errorf("gateway folder: %w", err)
	}
	all = true
	for _, e := range entries {
		if !e.IsDir() || !validID(e.Name()) {
			continue
		}
		r, err := s.reopen(e.Name())
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = os.RemoveAll(s.folder(e.Name()))
		case err == nil:
			s.enlist(r)
		default:
			all = false
		}
		if err != nil {
			s.log.Error("route not loaded", "route", e.Name(), "error", err)
		}
	}
	return all, nil
}
