package daemon

import (
	"path/filepath"
	"slices"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/command"
	"github.com/rolloutd/rolloutd/internal/agent/interactive"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/oracle"
	"github.com/rolloutd/rolloutd/internal/agent/react"
)

// agents are the agents of this deployment; the first is the default.
func (d *Daemon) agents() (*agent.Registry, error) {
	dir, err := filepath.Abs(d.cfg.AgentsDir())
	if err != nil {
		return nil, err
	}
	kinds := []agent.Kind{opencode.Kind(opencode.Options{AgentsDir: dir, Logger: d.log}), reactKind(), interactive.Kind(), oracle.Oracle(), oracle.Nop()}
	for _, spec := range d.commandAgents() {
		kind, err := command.Kind(spec, command.Options{AgentsDir: dir, Logger: d.log})
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	return agent.NewRegistry(kinds...)
}

// commandAgents are the configured command-line agents, and the presets that none of them replaces.
func (d *Daemon) commandAgents() []command.Spec {
	var own []command.Spec
	for _, a := range d.cfg.Agents {
		own = append(own, command.Spec(a))
	}
	presets := slices.DeleteFunc(command.Presets(), func(p command.Spec) bool {
		return slices.ContainsFunc(own, func(s command.Spec) bool { return s.Name == p.Name })
	})
	return append(presets, own...)
}

// reactKind is ReACT with the log of its transcript, which has OpenCode's form.
func reactKind() agent.Kind {
	k := react.Kind()
	k.Log = opencode.AgentLog
	return k
}
