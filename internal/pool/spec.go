package pool

import (
	"cmp"
	"fmt"
	"time"
)

// Values of Spec.Driver: drivers of Nomad.
const (
	DriverDocker  = "docker"
	DriverRawExec = "raw_exec"
	DriverExec    = "exec"
)

// localBackend is the default backend, whose sandboxes run on the host.
const localBackend = "local"

// Values of Spec.Down.
const (
	// hosts leave when they are empty
	DownDrained = "drain"

	// hosts are stopped at once, which costs each of their rollouts an attempt
	DownNow = "now"
)

// Spec describes a pool. Fields that AgentEnv has, too, have its names; docs/nomad.md explains all fields.
type Spec struct {
	Name string `json:"name" yaml:"-"`

	// the pool changes a job only if its meta has this owner
	Owner string `json:"owner" yaml:"-"`

	// time of the last `pool up`
	UpAt  time.Time `json:"up_at" yaml:"-"`
	Fixed *int      `json:"fixed,omitempty" yaml:"-"`

	// "", DownDrained or DownNow
	Down string `json:"down,omitempty" yaml:"-"`

	// "nomad", or empty
	Mode         string `json:"tool_pool_mode,omitempty" yaml:"tool_pool_mode"`
	NomadAddress string `json:"nomad_address" yaml:"nomad_address"`
	Namespace    string `json:"namespace,omitempty" yaml:"namespace"`
	Region       string `json:"region,omitempty" yaml:"region"`
	JobID        string `json:"sandbox_job_id" yaml:"sandbox_job_id"`

	Driver string `json:"driver" yaml:"driver"`

	// for Nomad's driver docker
	Image string `json:"sandbox_image,omitempty" yaml:"sandbox_image"`

	// path of rolloutd on the nodes, or in the image
	Command string `json:"command" yaml:"command"`

	// for Nomad's driver docker
	Privileged bool `json:"privileged,omitempty" yaml:"privileged"`

	// path of the hosts' configuration file on the nodes, or in the image
	HostConfig string `json:"host_config,omitempty" yaml:"host_config"`

	Slots int `json:"slots_per_container" yaml:"slots_per_container"`

	// nil: 1
	Min *int `json:"min_containers" yaml:"min_containers"`
	Max int  `json:"max_containers" yaml:"max_containers"`
	// AcquireTimeout is how long a rollout waits for a slot before a host is added, in seconds; Idle how
	// long hosts are spare before one leaves.
	AcquireTimeout float64 `json:"acquire_timeout_s" yaml:"acquire_timeout_s"`
	Idle           float64 `json:"idle_s" yaml:"idle_s"`

	// seconds between two checks
	Every float64 `json:"every_s" yaml:"every_s"`

	PurgeOnStart bool `json:"purge_job_on_start,omitempty" yaml:"purge_job_on_start"`

	// nil: true
	PurgeOnShutdown *bool `json:"purge_job_on_shutdown,omitempty" yaml:"purge_job_on_shutdown"`

	// whose waiting rollouts count; empty: the default one
	Backend     string   `json:"backend,omitempty" yaml:"backend"`
	Datacenters []string `json:"datacenters,omitempty" yaml:"datacenters"`
	NodePool    string   `json:"node_pool,omitempty" yaml:"node_pool"`
	OnePerNode  bool     `json:"one_per_node,omitempty" yaml:"one_per_node"`

	// CPU in MHz that Nomad reserves for a host
	CPU int `json:"cpu_mhz" yaml:"cpu_mhz"`

	// memory in MiB that Nomad reserves for a host
	MemoryMiB int `json:"memory_mib" yaml:"memory_mib"`

	// variables of the hosts; nothing secret
	Env map[string]string `json:"env,omitempty" yaml:"env"`

	// path of the Nomad variable whose items are the hosts' secret variables
	Variable string `json:"secrets" yaml:"secrets"`
}

// WithDefaults is the spec of the named pool with defaults for empty fields.
func (s Spec) WithDefaults(name string) Spec {
	s.Name = name
	s.NomadAddress = cmp.Or(s.NomadAddress, "http://localhost:4646")
	s.JobID = cmp.Or(s.JobID, "rolloutd-"+name)
	s.Driver = cmp.Or(s.Driver, DriverDocker)
	s.Command = cmp.Or(s.Command, "/usr/local/bin/rolloutd")
	s.Slots, s.Max = cmp.Or(s.Slots, 10), cmp.Or(s.Max, 10)

	if s.Min == nil {
		s.Min = new(1)
	}

	s.AcquireTimeout, s.Idle, s.Every = cmp.Or(s.AcquireTimeout, 30), cmp.Or(s.Idle, 300), cmp.Or(s.Every, 15)
	if len(s.Datacenters) == 0 {
		s.Datacenters = []string{"*"}
	}

	s.CPU, s.MemoryMiB = cmp.Or(s.CPU, 500), cmp.Or(s.MemoryMiB, 2048)
	s.Variable = cmp.Or(s.Variable, "nomad/jobs/"+s.JobID)

	return s
}

// Purges reports whether the job is purged when the pool is taken down.
func (s Spec) Purges() bool { return s.PurgeOnShutdown == nil || *s.PurgeOnShutdown }

// Pause is the time between two checks.
func (s Spec) Pause() time.Duration { return seconds(s.Every) }

// backend is that of the rollouts for which the pool has hosts.
func (s Spec) backend() string { return cmp.Or(s.Backend, localBackend) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Notes lists, for the operator, settings without effect, and settings whose effect may surprise.
func (s Spec) Notes() (notes []string) {
	if s.Driver != DriverDocker {
		if s.Image != "" {
			notes = append(
				notes,
				fmt.Sprintf("sandbox_image has no effect with driver %s: hosts run %s of their node",
					s.Driver, s.Command),
			)
		}

		if s.Privileged {
			notes = append(notes, fmt.Sprintf("privileged has no effect with driver %s", s.Driver))
		}
	}

	if s.Driver == DriverExec && s.backend() == localBackend {
		notes = append(
			notes,
			"driver exec does not run sandboxes of the backend local: Nomad hides parts of /proc; set driver to raw_exec, or backend to that of host_config",
		)
	}

	if s.PurgeOnStart {
		notes = append(notes, "purge_job_on_start purges a job without hosts only: hosts that run keep their rollouts")
	}

	return notes
}
