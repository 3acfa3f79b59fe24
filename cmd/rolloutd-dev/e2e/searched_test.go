package e2e

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// searched is a rolloutd that the test searches for keys.
type searched struct {
	site
	roles map[string]searchedRole
}

// searchedRole is one process of a searched rolloutd. Only the process that receives a client's call and the process that makes the model
// call may have the key in memory.
type searchedRole struct {
	*process
	metrics string // the URL that Prometheus scrapes; empty if the process has none
	given   bool   // its environment has the server's own key
	calls   bool   // it makes the model calls
	takes   bool   // it receives the clients' calls
}

func searchedDev(t *testing.T, model keyedModel, spans *collector) searched {
	t.Helper()
	srv := startDev(t, devOptions{env: append(spans.env(), "VLLM_URL="+model.url, "VLLM_API_KEY="+serverCanary)})
	return searched{srv.site, map[string]searchedRole{
		"rolloutd-dev": {process: srv.process, metrics: srv.metrics, given: true, calls: true, takes: true},
	}}
}

func searchedApart(t *testing.T, model keyedModel, spans *collector) searched {
	t.Helper()
	set := startApart(t, apartOptions{env: spans.env(), serveEnv: []string{"VLLM_URL=" + model.url, "VLLM_API_KEY=" + serverCanary}})
	s := searched{set.site, map[string]searchedRole{}}
	for name, r := range set.roles {
		s.roles[name] = searchedRole{process: r.process, metrics: r.metrics, given: name == "serve", calls: name == "gateway", takes: name == "serve"}
	}
	return s
}

// requireClean searches the environment, the command line and the memory of the process while this or another process makes a model call with
// the key.
func (r searchedRole) requireClean(t *testing.T, name, canary string) {
	t.Helper()
	environ := r.proc(t, "environ")
	if r.given {
		require.True(t, holds(environ, serverCanary), "%s's environment: the search is blind", name)
		environ = bytes.ReplaceAll(environ, []byte(serverCanary), nil)
	}
	requireClean(t, name+"'s environment", environ, "PATH=")
	requireClean(t, name+"'s command line", r.proc(t, "cmdline"), "--data")
	switch {
	case r.calls:
		require.True(t, r.remembers(t, canary), "%s's memory: the search is blind", name)
	case !r.takes:
		require.False(t, r.remembers(t, clientCanary), "%s's memory holds the client's key", name)
		require.False(t, r.remembers(t, serverCanary), "%s's memory holds the server's key", name)
	}
}
