package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
)

func TestAgents(t *testing.T) {
	t.Parallel()

	c, err := config.Load(strings.NewReader(`
agents:
  - name: mine
    package: p@1.2.3
    integrity: {any: sha512-x}
    check: [node, --version]
    command: [node, "{dir}/x.js"]
    env: {A: b}
    files: {/tmp/x: text}
    output: /tmp/out
    failure: error
    result: done
`), nil)
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, []config.Agent{{
		Name:      "mine",
		Package:   "p@1.2.3",
		Integrity: map[string]string{"any": "sha512-x"},
		Check:     []string{"node", "--version"},
		Command:   []string{"node", "{dir}/x.js"},
		Env:       map[string]string{"A": "b"},
		Files:     map[string]string{"/tmp/x": "text"},
		Output:    "/tmp/out",
		Failure:   "error",
		Result:    "done",
	}}, c.Agents)

	c.Agents = []config.Agent{{Name: "a", Command: []string{"x"}}, {Name: "a"}, {Command: []string{"x"}}}
	err = c.Validate()
	require.ErrorContains(t, err, `agents[1].name: "a" is defined twice`)
	require.ErrorContains(t, err, "agents[1].command: must be a command line")
	require.ErrorContains(t, err, "agents[2].name: must be the name")
}
