package nomad

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/rolloutd/rolloutd/internal/pool"
)

// Keys of meta.
const (
	// owner of the job
	metaOwner = "rolloutd_owner"

	// pool of the job
	metaPool = "rolloutd_pool"

	// digest of the settings of a group
	metaTemplate = "rolloutd_template"
)

const (
	// for a role to stop
	killTimeout    = 30 * time.Second
	restartDelay   = 2 * time.Second
	rescheduleMost = 5 * time.Minute
)

// ports lists the ports of a host: of the gateway, its trainer API, the host's API, its tool service, and
// the metrics of both roles.
func ports() []string { return []string{"gateway", "trainer", "api", "tools", "metricsg", "metricsw"} }

// changed is the job to register: the existing or a new one, with the counts. A group with hosts is kept
// unchanged, so that nothing restarts; a group without hosts is built from the spec.
func changed(s pool.Spec, old *api.Job, counts map[string]int) *api.Job {
	job := old
	if job == nil {
		job = base(s)
	}

	job.Stop = ptr(false)
	job.Datacenters = s.Datacenters

	var all []*api.TaskGroup

	for _, g := range groups(s, job, nil) {
		n, change := counts[g.Name]
		if !change {
			n = g.Count
		}

		here := find(job, g.Name)
		switch {
		case here != nil && g.Count > 0 && n > 0:
			all = append(all, here)
		case number(g.Name) < s.Max:
			all = append(all, host(s, g.Name, n))
		case here != nil && n > 0:
			all = append(all, here)
		}
	}

	job.TaskGroups = all

	return job
}

// base is the job without its groups.
func base(s pool.Spec) *api.Job {
	job := &api.Job{
		ID:     &s.JobID,
		Name:   &s.JobID,
		Type:   ptr(api.JobTypeService),
		Meta:   map[string]string{metaOwner: s.Owner, metaPool: s.Name},
		Update: noDeployments(),
	}
	if s.Region != "" {
		job.Region = &s.Region
	}

	if s.Namespace != "" {
		job.Namespace = &s.Namespace
	}

	if s.NodePool != "" {
		job.NodePool = &s.NodePool
	}

	if s.OnePerNode {
		job.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}}
	}

	return job
}

// noDeployments lets Nomad change a group without a deployment. All other fields need values, which Nomad checks.
func noDeployments() *api.UpdateStrategy {
	u := api.DefaultUpdateStrategy()
	u.MaxParallel = ptr(0)

	return u
}

// host is the group of one host: its gateway and its worker, with the allocation's shared folder as their
// data folder. Nomad restarts a role that ends in the same allocation, so that rollouts continue.
func host(s pool.Spec, name string, count int) *api.TaskGroup {
	var dynamic []api.Port
	for _, label := range ports() {
		dynamic = append(dynamic, api.Port{Label: label})
	}

	return &api.TaskGroup{
		Name: &name, Count: &count, Meta: map[string]string{metaTemplate: templateHash(s)},
		Update:   noDeployments(),
		Networks: []*api.NetworkResource{{Mode: "host", DynamicPorts: dynamic}},
		RestartPolicy: &api.RestartPolicy{
			Attempts: ptr(10),
			Interval: ptr(5 * time.Minute),
			Delay:    ptr(restartDelay),
			Mode:     ptr("delay"),
		},
		ReschedulePolicy: &api.ReschedulePolicy{
			Delay:         ptr(5 * time.Second),
			DelayFunction: ptr("exponential"),
			MaxDelay:      ptr(rescheduleMost),
			Unlimited:     ptr(true),
		},
		Tasks: []*api.Task{
			role(s, "gateway", api.Resources{
				CPU:      ptr(s.CPU / 5),
				MemoryMB: ptr(256),
			}, "metricsg", "--listen", local("gateway")),
			role(s, "worker", api.Resources{
				CPU:      ptr(s.CPU),
				MemoryMB: ptr(s.MemoryMiB),
			}, "metricsw", "--gateway", "http://"+local("gateway")),
		},
	}
}

func local(port string) string  { return "127.0.0.1:${NOMAD_PORT_" + port + "}" }
func public(port string) string { return "${NOMAD_IP_" + port + "}:${NOMAD_PORT_" + port + "}" }

// role is the task of a role. Nomad writes its secrets from a Nomad variable to a file in the secrets folder.
func role(s pool.Spec, name string, r api.Resources, metrics string, args ...string) *api.Task {
	env := map[string]string{
		"ROLLOUTD_DATA":            "${NOMAD_ALLOC_DIR}/rolloutd",
		"ROLLOUTD_HOST_NAME":       pool.HostName("${NOMAD_ALLOC_ID}"),
		"ROLLOUTD_WORKER_CAPACITY": fmt.Sprint(s.Slots),
		"ROLLOUTD_WORKER_LISTEN":   public("api"),
		"ROLLOUTD_TOOLS_LISTEN":    public("tools"),
		"ROLLOUTD_TRAINER_LISTEN":  local("trainer"),
		"ROLLOUTD_METRICS_LISTEN":  local(metrics),
	}
	maps.Copy(env, s.Env)

	return &api.Task{
		Name: name, Driver: s.Driver, Config: config(s, append(command(s, name), args...)), Env: env, Resources: &r,
		KillSignal: "SIGTERM", KillTimeout: ptr(killTimeout),
		Templates: []*api.Template{
			{
				EmbeddedTmpl: ptr(
					`{{ with nomadVar "` + s.Variable + `" }}{{ range .Tuples }}{{ .K }}={{ .V | toJSON }}` + "\n" + `{{ end }}{{ end }}`,
				),
				DestPath:   ptr("secrets/rolloutd.env"),
				Perms:      ptr("0600"),
				Envvars:    ptr(true),
				ChangeMode: ptr("noop"),
			},
		},
	}
}

// command is the subcommand of a role with the flags that all roles have.
func command(s pool.Spec, name string) []string {
	if s.HostConfig == "" {
		return []string{name}
	}

	return []string{name, "--config", s.HostConfig}
}

func config(s pool.Spec, args []string) map[string]any {
	c := map[string]any{"command": s.Command, "args": args}
	if s.Driver == pool.DriverDocker {
		c["image"], c["privileged"], c["network_mode"] = s.Image, s.Privileged, "host"
	}

	return c
}

// templateHash is the digest of the settings of a host.
func templateHash(s pool.Spec) string {
	part := pool.Spec{
		Driver:     s.Driver,
		Image:      s.Image,
		Command:    s.Command,
		Privileged: s.Privileged,
		HostConfig: s.HostConfig,
		Slots:      s.Slots,
		// The digest of a host that runs must not change.
		Min:       new(0),
		CPU:       s.CPU,
		MemoryMiB: s.MemoryMiB,
		Env:       s.Env,
		Variable:  s.Variable,
	}

	raw, err := json.Marshal(part)
	if err != nil {
		// every field of a Spec has a JSON form
		return ""
	}

	sum := sha256.Sum256(raw)

	return hex.EncodeToString(sum[:8])
}

func ptr[T any](v T) *T { return &v }
