package daemon

import (
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/oracle"
)

// agents are the agents of this deployment; the first is the default.
func (d *Daemon) agents() (*agent.Registry, error) {
	dir, err := filepath.Abs(d.cfg.AgentsDir())
	if err != nil {
		return nil, err
	}
	return agent.NewRegistry(opencode.Kind(opencode.Options{AgentsDir: dir, Logger: d.log}), oracle.Oracle(), oracle.Nop())
}
