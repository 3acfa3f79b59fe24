package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Kind is a registered agent: its name, its code, and the properties that the rest of the system depends on.
type Kind struct {
	Name string
	Agent
	// OutputBlob is the name of the attempt's blob with the agent's own output; "" is store.AgentOutput.
	OutputBlob string
	// LogPath is the path of the transcript's log in the sandbox while the agent runs; "" is NAME.jsonl in
	// rollout.AgentLogDir.
	LogPath string
	// Log renders a transcript as a log, one JSON event a line; nil: one message a line.
	Log func(rollout.Transcript) []byte
	// NoModel: the agent makes no model calls, so an end without one is no failure.
	NoModel bool
	// Sessions: each model call carries the session id of Status.SessionID.
	Sessions bool
	// OnHost: the agent runs on the host and calls its model by Env.Model. Its sandbox has no model channel.
	OnHost bool
	// Descendants: model calls of the processes that the agent's process starts for them count as the agent's own,
	// those of tools do not; see gatewayapi.Route.OriginChildren.
	Descendants bool
}

// Installer is the agent's Installer, or nil if the agent needs no installation.
func (k Kind) Installer() Installer {
	i, _ := k.Agent.(Installer)
	return i
}

// NoChannel reports whether the agent needs no model channel in its sandbox.
func (k Kind) NoChannel() bool { return k.OnHost || k.NoModel }

// Registry holds the agents of a deployment by name.
type Registry struct{ kinds []Kind }

// NewRegistry makes a registry; the first kind is the default. Names must differ.
func NewRegistry(kinds ...Kind) (*Registry, error) {
	r := &Registry{}
	for _, k := range kinds {
		if _, err := r.Get(k.Name); err == nil {
			return nil, fault.New(fault.Invalid, "agents: %q is defined twice", k.Name)
		}

		if k.LogPath == "" {
			k.LogPath = rollout.AgentLogDir + "/" + k.Name + ".jsonl"
		}

		if k.OutputBlob == "" {
			k.OutputBlob = store.AgentOutput
		}

		if k.Log == nil {
			k.Log = messageLines
		}

		r.kinds = append(r.kinds, k)
	}

	return r, nil
}

// Names lists the agents, the default first.
func (r *Registry) Names() []string {
	names := make([]string, 0, len(r.kinds))
	for _, k := range r.kinds {
		names = append(names, k.Name)
	}

	return names
}

// Get returns the agent of that name. An unknown name is a fault.NotFound: the edge has checked the name, so this host lacks
// the agent and another one may have it.
func (r *Registry) Get(name string) (Kind, error) {
	i := slices.IndexFunc(r.kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, fault.New(fault.NotFound, "agent: unknown agent %q: must be one of %s", name, strings.Join(r.Names(), ", "))
	}

	return r.kinds[i], nil
}

// messageLines is the log of an agent without a format of its own: its messages, one a line.
func messageLines(t rollout.Transcript) []byte {
	var out []byte

	for _, m := range t.Messages {
		var line bytes.Buffer
		// it was validated when it was received
		if json.Compact(&line, m) == nil {
			out = append(append(out, line.Bytes()...), '\n')
		}
	}

	return out
}
