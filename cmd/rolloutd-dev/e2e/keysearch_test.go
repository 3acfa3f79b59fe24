package e2e

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// keySearch is a rolloutd that the test searches for keys.
type keySearch struct {
	instance
	roles map[string]keySearchRole
}

// keySearchRole is one process of a searched rolloutd. Only the process that receives a client's call and
// the process that makes the model call may have the key in memory.
type keySearchRole struct {
	*process

	// the URL that Prometheus scrapes; empty if the process has none
	metrics string

	// its environment has the server's own key
	given bool

	// it makes the model calls
	calls bool

	// it receives the clients' calls
	takes bool
}

func searchOneProcess(t *testing.T, model keyedModel, spans *collector) keySearch {
	t.Helper()
	srv := startDev(t, devOptions{env: append(spans.env(), "VLLM_URL="+model.url, "VLLM_API_KEY="+serverCanary)})

	return keySearch{srv.instance, map[string]keySearchRole{
		"rolloutd-dev": {process: srv.process, metrics: srv.metrics, given: true, calls: true, takes: true},
	}}
}

func searchFourProcesses(t *testing.T, model keyedModel, spans *collector) keySearch {
	t.Helper()
	set := startFourProcesses(t, fourProcessesOptions{
		env:      spans.env(),
		serveEnv: []string{"VLLM_URL=" + model.url, "VLLM_API_KEY=" + serverCanary},
	})

	s := keySearch{set.instance, map[string]keySearchRole{}}
	for name, r := range set.roles {
		s.roles[name] = keySearchRole{
			process: r.process,
			metrics: r.metrics,
			given:   name == "serve",
			calls:   name == "gateway",
			takes:   name == "serve",
		}
	}

	return s
}

// requireClean searches the environment, the command line and the memory of the process while this or
// another process makes a model call with the key.
func (r keySearchRole) requireClean(t *testing.T, name, canary string) {
	t.Helper()

	environ := r.proc(t, "environ")
	if r.given {
		require.True(t, containsKey(environ, serverCanary), "%s's environment: the search is blind", name)
		environ = bytes.ReplaceAll(environ, []byte(serverCanary), nil)
	}

	requireClean(t, name+"'s environment", environ, "PATH=")
	requireClean(t, name+"'s command line", r.proc(t, "cmdline"), "--data")

	switch {
	case r.calls:
		require.True(t, r.hasInMemory(t, canary), "%s's memory: the search is blind", name)
	case !r.takes:
		require.False(t, r.hasInMemory(t, clientCanary), "%s's memory holds the client's key", name)
		require.False(t, r.hasInMemory(t, serverCanary), "%s's memory holds the server's key", name)
	}
}
