package cgroup

import (
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/driver/usage"
)

// LimitReached reports whether a sandbox ever reached a limit of its memory, or whether that is unknown.
// The kernel counts this before it kills a process for a limit. Version 1 has no such counter: with Linux
// 6.18 its memory.failcnt stays 0.
func (h *Hierarchy) LimitReached(name string) bool {
	// counts those of the cgroups below, too
	return h.Version != 2 || usage.Keyed(filepath.Join(h.Root, parentName, name), "memory.events", "max") != 0
}

// Counters returns the counters of a sandbox.
func (h *Hierarchy) Counters(name string) usage.Counters {
	if h.Version == 2 {
		at := filepath.Join(h.Root, parentName, name)
		work := filepath.Join(at, workName)

		return usage.Counters{Kills: at, Sandboxd: filepath.Join(at, sandboxdName), Memory: work, PIDs: work, CPU: at}
	}

	at := func(controller string) string { return filepath.Join(h.v1[controller], parentName, name) }
	work := filepath.Join(at("memory"), workName)

	return usage.Counters{
		Kills:    work,
		Sandboxd: filepath.Join(at("memory"), sandboxdName),
		Memory:   work,
		PIDs:     filepath.Join(at("pids"), workName),
		CPU:      at("cpuacct"),
	}
}
