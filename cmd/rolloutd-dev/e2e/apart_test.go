package e2e

import (
	"testing"
)

// apart is rolloutd as four processes, on one host and one data folder.
type apart struct {
	t     testing.TB // whose end is theirs
	url   string
	roles map[string]*role
}

// role is how one of them is started, and where it tells that it is up.
type role struct {
	*process
	binary string
	args   []string
	env    []string
	health string
}

func startApart(t testing.TB, modelURL string) *apart {
	t.Helper()
	p := freePorts(t, 7)
	data := dataFolder(t)
	env := func(metrics string) []string {
		return []string{"TEMPORAL_ADDRESS=" + p[1], "SCRIPTED_URL=" + modelURL, "ROLLOUTD_METRICS_LISTEN=" + metrics}
	}
	a := &apart{t: t, url: "http://" + p[0], roles: map[string]*role{
		"temporal": {
			binary: "rolloutd-dev", health: "http://" + p[2] + "/healthz",
			args: []string{"temporal", "--data", data, "--verbose", "--temporal-port", portOf(t, p[1]), "--ui-port", portOf(t, p[2])},
		},
		"gateway": {
			binary: "rolloutd", health: "http://" + p[4] + "/healthz", env: append(env(p[4]), "ROLLOUTD_TRAINER_LISTEN=127.0.0.1:0"),
			args: []string{"gateway", "--data", data, "--listen", p[3]},
		},
		"worker": {
			binary: "rolloutd", health: "http://" + p[5] + "/healthz", env: env(p[5]),
			args: []string{"worker", "--data", data, "--gateway", "http://" + p[3]},
		},
		"serve": {
			binary: "rolloutd", health: "http://" + p[6] + "/healthz", env: env(p[6]),
			args: []string{"serve", "--data", data, "--listen", p[0]},
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
