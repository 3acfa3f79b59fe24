package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// journal is what is kept of a route besides its trace. The model's key is in it sealed.
type journal struct {
	Route       gateway.Route    `json:"route"`
	Trace       string           `json:"trace"` // key of its records; another for each life of a route of that ID
	Ended       string           `json:"ended,omitempty"`
	BudgetSpent string           `json:"budget_spent,omitempty"`
	Failure     *gateway.Failure `json:"failure,omitempty"`
	Sessions    []string         `json:"sessions,omitempty"` // of the agent's own
}

func loadJournal(folder string) (journal, error) {
	var j journal
	raw, err := os.ReadFile(filepath.Join(folder, journalFile))
	if err != nil {
		return j, fmt.Errorf("route journal: %w", err)
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		return j, fmt.Errorf("route journal: %w", err)
	}
	if j.Route.ID != filepath.Base(folder) {
		return j, fmt.Errorf("route journal: folder %q holds route %q", filepath.Base(folder), j.Route.ID)
	}
	return j, nil
}

// saveJournal replaces the journal in one step: a crash leaves the old one or the new one.
func saveJournal(folder string, j journal) error {
	raw, err := json.Marshal(j)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "route journal")
	}
	tmp, err := os.CreateTemp(folder, ".journal-*")
	if err != nil {
		return fault.Wrap(fault.Internal, err, "route journal")
	}
	defer os.Remove(tmp.Name()) // gone already when all went well
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(folder, journalFile))
	}
	if err == nil {
		err = errors.Join(syncFolder(folder), syncFolder(filepath.Dir(folder)))
	}
	return fault.Wrap(fault.Internal, err, "route journal")
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

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

// loadRoutes opens the routes; the server is not shared yet. A folder without a journal is what a crash left of a route being
// opened or closed. A route that cannot be opened is left alone, and out: the others must not suffer.
func (s *Server) loadRoutes() (all bool, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return false, fmt.Errorf("gateway folder: %w", err)
	}
	all = true
	for _, e := range entries {
		if !e.IsDir() || !gateway.ValidID(e.Name()) {
			continue
		}
		r, err := s.reopen(e.Name())
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = os.RemoveAll(s.folder(e.Name()))
		case err == nil:
			r.admission = s.upstreams.Join(r.Model.Upstream())
			s.routes[r.ID] = r
		default:
			all = false
		}
		if err != nil {
			s.log.Error("route not loaded", "route", e.Name(), "error", err)
		}
	}
	return all, nil
}
