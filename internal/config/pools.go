package config

import (
	"maps"
	"slices"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/pool"
)

// Pool is the spec of a pool with its defaults. Its owner is not set.
func (c Config) Pool(name string) (pool.Spec, bool) {
	s, ok := c.Pools[name]
	return s.WithDefaults(name), ok
}

func (c Config) validatePools(p *problems) {
	jobs := map[string]string{}

	for _, name := range slices.Sorted(maps.Keys(c.Pools)) {
		s, _ := c.Pool(name)
		for _, wrong := range s.Check() {
			p.check(false, "pools."+name+"."+wrong.Field, "%s", wrong.Want)
		}

		job := s.NomadAddress + s.Region + s.Namespace + s.JobID
		p.check(jobs[job] == "", "pools."+name+".sandbox_job_id",
			"must be another job than that of the pool %s", jobs[job])
		jobs[job] = name
	}

	p.check(c.Worker.Name == "" || fleet.IsName(c.Worker.Name), "worker.name",
		"must be 1 to 64 letters, digits, '.', '_' or '-', got %q", c.Worker.Name)
}
