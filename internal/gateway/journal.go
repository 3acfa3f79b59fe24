package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// journal is what is kept of a route besides its trace. The model's key is in it sealed.
type journal struct {
	Route       Route    `json:"route"`
	Trace       string   `json:"trace"` // key of its records; another for each life of a route of that ID
	Ended       string   `json:"ended,omitempty"`
	BudgetSpent string   `json:"budget_spent,omitempty"`
	Failure     *Failure `json:"failure,omitempty"`
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
