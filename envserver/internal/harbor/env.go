package harbor

import (
	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Name is the name that the Task API's paths and list_environments have for the environment.
const Name = "harbor_env"

// Options are what the environment is made of; all but Defaults and First are required.
type Options struct {
	Table    *tools.Table // starts and awaits the rollouts
	Rollouts tools.Rollouts
	Resolve  func(catalog.Request) (rollout.Model, string, error)
	Agents   []string          // on offer
	Backends []string          // of sandboxes; the first is the default
	Sets     map[string]string // paths of task sets by the name of their split
	First    string            // the split that clients mean by ""; default: the first by name
	Defaults map[string]any    // arguments of start_rollout, where neither the task nor the call says
}

// Env is the environment. It is safe for concurrent use.
type Env struct {
	o       Options
	sets    sets
	results *semaphore.Weighted // results that are being made
}

// makers is how many results are made at once: each may take some 300 MiB until it is a text.
const makers = 2

// New makes the environment.
func New(o Options) *Env {
	return &Env{o: o, sets: newSets(o.Sets, o.First), results: semaphore.NewWeighted(makers)}
}
