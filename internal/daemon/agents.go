package daemon

import (
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/command"
	"github.com/rolloutd/rolloutd/internal/agent/interactive"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/agent/programs"
	"github.com/rolloutd/rolloutd/internal/agent/react"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/retention"
)

// Agents returns the agents of a deployment; the first is the default.
func Agents(c config.Config, log *slog.Logger) (*agent.Registry, error) {
	dir, err := filepath.Abs(c.AgentsDir())
	if err != nil {
		return nil, err
	}

	kinds := []agent.Kind{
		opencode.Kind(opencode.Options{Binary: binary.New(binary.Options{AgentsDir: dir, Logger: log}), Logger: log}),
		reactKind(), interactive.Kind(), agent.NewOracle(), agent.NewNop(),
	}
	for _, spec := range commandAgents(c) {
		kind, err := command.Kind(spec, command.Options{AgentsDir: dir, Logger: log})
		if err != nil {
			return nil, err
		}

		kinds = append(kinds, kind)
	}

	return agent.NewRegistry(kinds...)
}

// checkAgentFolders refuses agents whose folder is not on this host, before a rollout needs it. Only
// workers read the folders.
func checkAgentFolders(c config.Config) error {
	dir, err := filepath.Abs(c.AgentsDir())
	if err != nil {
		return err
	}

	for _, spec := range commandAgents(c) {
		a, err := command.New(spec, command.Options{AgentsDir: dir})
		if err != nil {
			return err
		}

		if err := a.CheckFolder(); err != nil {
			return err
		}
	}

	return nil
}

// Programs returns the folder of this host's programs of agents. None is deleted that a rollout may use: a rollout that
// began with it is younger than retention.MinTaskAge.
func Programs(c config.Config, log *slog.Logger) (programs.Folder, error) {
	dir, err := filepath.Abs(c.AgentsDir())
	if err != nil {
		return programs.Folder{}, err
	}

	needed := []string{binary.New(binary.Options{AgentsDir: dir}).Program()}

	for _, spec := range commandAgents(c) {
		a, err := command.New(spec, command.Options{AgentsDir: dir})
		if err != nil {
			return programs.Folder{}, err
		}

		needed = append(needed, a.Program())
	}

	return programs.Folder{Dir: dir, Needed: needed, MaxAge: retention.MinTaskAge, Logger: log}, nil
}

// commandAgents are the configured command-line agents, and the presets that none of them replaces.
func commandAgents(c config.Config) []command.Spec {
	var own []command.Spec
	for _, a := range c.Agents {
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
