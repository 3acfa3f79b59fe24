package harbor

import (
	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Name is the environment's name in the paths of the Task API and in list_environments.
const Name = "harbor_env"

// Options configures the environment; all but Defaults and First are required.
type Options struct {
	// starts the rollouts and waits for them
	Table    *tools.Table
	Rollouts tools.Rollouts
	Resolve  func(catalog.Request) (rollout.Model, string, error)

	// names of the agents on offer
	Agents []string

	// sandbox backends; the first is the default
	Backends []string

	// paths of task sets by the name of their split
	Sets map[string]string

	// the split for the name ""; default: the first by name
	First string

	// arguments of start_rollout that neither the task nor the call sets
	Defaults map[string]any
}

// Env is the environment. It is safe for concurrent use.
type Env struct {
	o    Options
	sets sets

	// limits results that are built at once
	results *semaphore.Weighted
}

// maxResults bounds the results that are built at once: each may take some 300 MiB.
const maxResults = 2

// New makes the environment.
func New(o Options) *Env {
	return &Env{o: o, sets: newSets(o.Sets, o.First), results: semaphore.NewWeighted(maxResults)}
}
