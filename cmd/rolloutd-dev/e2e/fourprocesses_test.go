package e2e

import (
	"net/url"
	"testing"

	"github.com/rolloutd/rolloutd/internal/network/lostconn/lostconntest"
)

// fourProcesses is a rolloutd of four processes on one host with one data folder.
type fourProcesses struct {
	instance

	// the processes stop when this test ends
	t     testing.TB
	roles map[string]*role

	// by name of the connection; empty unless fourProcessesOptions.linked is set
	links map[string]*lostconntest.Link
}

// fourProcessesOptions are the differences from the processes that an operator starts.
type fourProcessesOptions struct {
	// URL of endpoint "scripted"
	modelURL string

	// connections between roles and to the model use links that the test can break
	linked bool

	// additional environment of all processes
	env []string

	// additional environment of serve only
	serveEnv []string

	// text of a configuration file of all processes except Temporal; empty: none
	config string
}

// role is the command line, the environment and the health URL of one process.
type role struct {
	*process
	binary string
	args   []string
	env    []string
	health string
	// metrics is the URL that Prometheus scrapes; empty if the process has none.
	metrics string
}

func startFourProcesses(t testing.TB, o fourProcessesOptions) *fourProcesses {
	t.Helper()
	p := freePorts(t, 8)
	data := dataFolder(t)
	a := &fourProcesses{
		instance: instance{url: "http://" + p[0], temporal: p[1], data: data},
		t:        t,
		links:    map[string]*lostconntest.Link{},
	}
	by := func(_, address string) string { return address }

	var workerEnv []string

	if o.linked {
		by = a.link
		workerEnv = []string{
			"ROLLOUTD_WORKER_LISTEN=" + p[7],
			"ROLLOUTD_WORKER_ADVERTISE=http://" + by("serve to worker", p[7]),
		}
	}

	modelURL := o.modelURL
	if u, err := url.Parse(modelURL); err == nil && u.Host != "" {
		u.Host = by("gateway to model", u.Host)
		modelURL = u.String()
	}

	env := func(metrics, temporal string) []string {
		return append([]string{
			"TEMPORAL_ADDRESS=" + temporal, "SCRIPTED_URL=" + modelURL, "ROLLOUTD_METRICS_LISTEN=" + metrics,
			"ROLLOUTD_ALLOW_HOSTS=127.0.0.0/8", // the models of these tests run on this machine
			"ROLLOUTD_SANDBOX_WARM=0",
		}, o.env...)
	}

	a.roles = map[string]*role{
		"temporal": {
			binary: "rolloutd-dev",
			health: "http://" + p[2] + "/healthz",
			env:    o.env,
			args: []string{
				"temporal",
				"--data",
				data,
				"--verbose",
				"--temporal-port",
				portOf(t, p[1]),
				"--ui-port",
				portOf(t, p[2]),
			},
		},
		"gateway": {
			binary: "rolloutd", health: "http://" + p[4] + "/healthz", metrics: "http://" + p[4] + "/metrics",
			env:  append(env(p[4], p[1]), "ROLLOUTD_TRAINER_LISTEN=127.0.0.1:0"),
			args: []string{"gateway", "--data", data, "--verbose", "--listen", p[3]},
		},
		"worker": {
			binary:  "rolloutd",
			health:  "http://" + p[5] + "/healthz",
			metrics: "http://" + p[5] + "/metrics",
			env:     append(env(p[5], by("worker to temporal", p[1])), workerEnv...),
			args: []string{
				"worker",
				"--data",
				data,
				"--verbose",
				"--gateway",
				"http://" + by("worker to gateway", p[3]),
			},
		},
		"serve": {
			binary: "rolloutd", health: "http://" + p[6] + "/healthz", metrics: "http://" + p[6] + "/metrics",
			env:  append(env(p[6], by("serve to temporal", p[1])), o.serveEnv...),
			args: []string{"serve", "--data", data, "--verbose", "--listen", p[0]},
		},
	}

	if o.config != "" {
		file := configFile(t, o.config)
		for _, name := range []string{"gateway", "worker", "serve"} {
			a.roles[name].args = append(a.roles[name].args, "--config", file)
		}
	}

	for _, name := range []string{"temporal", "gateway", "worker", "serve"} {
		a.start(name)
	}

	return a
}

// link starts a link to an address and returns the address of the link.
func (a *fourProcesses) link(name, address string) string {
	l := lostconntest.New(a.t, address)
	a.links[name] = l

	return l.Address()
}

// start starts a role and waits until it is ready.
func (a *fourProcesses) start(name string) {
	a.t.Helper()
	r := a.roles[name]
	r.process = startProcess(a.t, r.env, r.binary, r.args...)
	r.ready(a.t, r.health)
}
