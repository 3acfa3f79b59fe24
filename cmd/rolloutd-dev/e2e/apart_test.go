package e2e

import (
	"testing"
)

// apart is rolloutd as four processes, on one host and one data folder.
type apart struct {
	site
	t     testing.TB // whose end is theirs
	roles map[string]*role
}

// apartOptions say how the four differ from what an operator starts.
type apartOptions struct {
	modelURL string   // of endpoint "scripted"
	env      []string // more environment, of all
	serveEnv []string // more environment, of serve alone
}

// role is how one of them is started, and where it tells that it is up.
type role struct {
	*process
	binary string
	args   []string
	env    []string
	health string
	// metrics is what Prometheus scrapes; "": nothing.
	metrics string
}

func startApart(t testing.TB, o apartOptions) *apart {
	t.Helper()
	p := freePorts(t, 7)
	data := dataFolder(t)
	env := func(metrics string) []string {
		return append([]string{
			"TEMPORAL_ADDRESS=" + p[1], "SCRIPTED_URL=" + o.modelURL, "ROLLOUTD_METRICS_LISTEN=" + metrics,
			"ROLLOUTD_ALLOW_HOSTS=127.0.0.0/8", // clients of these tests have their models on this machine
			"ROLLOUTD_SANDBOX_WARM=0",
		}, o.env...)
	}
	a := &apart{site: site{url: "http://" + p[0], temporal: p[1], data: data}, t: t, roles: map[string]*role{
		"temporal": {
			binary: "rolloutd-dev", health: "http://" + p[2] + "/healthz", env: o.env,
			args: []string{"temporal", "--data", data, "--verbose", "--temporal-port", portOf(t, p[1]), "--ui-port", portOf(t, p[2])},
		},
		"gateway": {
			binary: "rolloutd", health: "http://" + p[4] + "/healthz", metrics: "http://" + p[4] + "/metrics",
			env:  append(env(p[4]), "ROLLOUTD_TRAINER_LISTEN=127.0.0.1:0"),
			args: []string{"gateway", "--data", data, "--verbose", "--listen", p[3]},
		},
		"worker": {
			binary: "rolloutd", health: "http://" + p[5] + "/healthz", metrics: "http://" + p[5] + "/metrics",
			env:  env(p[5]),
			args: []string{"worker", "--data", data, "--verbose", "--gateway", "http://" + p[3]},
		},
		"serve": {
			binary: "rolloutd", health: "http://" + p[6] + "/healthz", metrics: "http://" + p[6] + "/metrics",
			env:  append(env(p[6]), o.serveEnv...),
			args: []string{"serve", "--data", data, "--verbose", "--listen", p[0]},
		},
	}}
	for _, name := range []string{"temporal", "gateway", "worker", "serve"} {
		a.start(name)
	}
	return a
}

// start starts one of the four and waits until it is up.
func (a *apart) start(name string) {
	a.t.Helper()
	r := a.roles[name]
	r.process = startProcess(a.t, r.env, r.binary, r.args...)
	r.ready(a.t, r.health)
}
