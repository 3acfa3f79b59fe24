package envserver

import (
	"bytes"
	"encoding/json"

	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// TaskCheck checks tasks as a server with these agents and backends would, without starting anything. It is
// safe for concurrent use.
type TaskCheck struct{ table *tools.Table }

// NewTaskCheck returns a check for a deployment. Empty lists are the server's defaults.
func NewTaskCheck(agents, backends []string) (TaskCheck, error) {
	o := Options{
		Rollouts: noRollouts{}, Agents: agents, Backends: backends, Seal: func(key string) string { return key },
		// the server that runs the task knows
		CheckImage: func(string, string) error { return nil },
		Resolve: func(catalog.Request) (rollout.Model, string, error) {
			return rollout.Model{
				BaseURL:  "http://model/v1",
				Name:     "model",
				Logprobs: true,
				TokenIDs: true,
				Price:    &rollout.Price{},
			}, "", nil
		},
	}

	o, err := o.filled()
	if err != nil {
		return TaskCheck{}, err
	}

	table, err := o.table(exportmemory.New(o.ExportMemory))

	return TaskCheck{table}, err
}

// noRollouts is an engine that is never called.
type noRollouts struct{ Rollouts }

// Check refuses the arguments that run_rollout would refuse, with the name of the field. It does not call
// the model endpoint.
func (c TaskCheck) Check(args map[string]any) error {
	text, err := json.Marshal(args)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "arguments")
	}

	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()

	var decoded map[string]any
	if err := dec.Decode(&decoded); err != nil {
		return fault.Wrap(fault.Invalid, err, "arguments")
	}

	_, err = c.table.Spec(decoded)

	return err
}
