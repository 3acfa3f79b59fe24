package process

import (
	"os"
	"slices"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Listeners returns the ports with which processes of the sandbox listen, other than this process and the named ones
// themselves, which the sandbox's client has started and knows.
func (t *Table) Listeners() (wire.Listeners, error) {
	pids, err := t.killable()
	if err != nil {
		return wire.Listeners{}, err
	}

	found, err := listeners(0)
	if err != nil {
		return wire.Listeners{}, err
	}

	var ports []int

	for _, l := range found {
		if !t.holdsSocket(l.inode) {
			ports = append(ports, int(l.port))
		}
	}

	slices.Sort(ports)
	ports = slices.Compact(ports)

	return wire.Listeners{Ports: ports[:min(len(ports), wire.MaxListeners)], Processes: len(pids)}, nil
}

// holdsSocket reports whether this process or a named one holds the socket itself.
func (t *Table) holdsSocket(inode uint64) bool {
	budget := maxDescriptors
	if _, own := findSocket(holding{os.Getpid(), inode}, "", &budget); own {
		return true
	}

	return slices.ContainsFunc(t.running(), func(p *Process) bool {
		budget := maxDescriptors
		return t.holds(p, p.pid, inode, &budget)
	})
}
