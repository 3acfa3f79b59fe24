package rollout

import (
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Network is the hosts that a task's processes may reach: names (example.org), the names below one (*.example.org), with or without a
// port. The setup may reach Allow and Setup, the agent Allow and Agent. Grading reaches nothing.
type Network struct {
	Allow []string `json:"allow,omitempty"`
	Setup []string `json:"setup,omitempty"`
	Agent []string `json:"agent,omitempty"`
}

const (
	maxHosts = 1000
	maxHost  = 300 // bytes
)

// ForSetup lists what the setup may reach.
func (n *Network) ForSetup() []string {
	if n == nil {
		return nil
	}
	return slices.Concat(n.Allow, n.Setup)
}

// ForAgent lists what the agent may reach.
func (n *Network) ForAgent() []string {
	if n == nil {
		return nil
	}
	return slices.Concat(n.Allow, n.Agent)
}

// All lists what any phase may reach.
func (n *Network) All() []string {
	if n == nil {
		return nil
	}
	return slices.Concat(n.Allow, n.Setup, n.Agent)
}

func (n *Network) validate() error {
	all := n.All()
	if len(all) > maxHosts {
		return fault.Field("network", "want at most %d hosts, got %d", maxHosts, len(all))
	}
	for _, host := range all {
		if host == "" || len(host) > maxHost {
			return fault.Field("network", "want host names of 1 to %d bytes, got %.100q", maxHost, host)
		}
	}
	return nil
}
