package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/internal/config"
)

// The variables that docker-compose.yml gives the roles are read by them.
func TestVariablesOfCompose(t *testing.T) {
	t.Parallel()

	var compose struct {
		Role struct {
			Environment map[string]string
		} `yaml:"x-role"`
	}

	text, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &compose))
	require.Greater(t, len(compose.Role.Environment), 10)

	known := map[string]bool{}
	for _, v := range config.Variables() {
		known[v.Name] = true
	}

	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)

	for name := range compose.Role.Environment {
		require.True(t, known[name] || strings.Contains(string(page), "`"+name+"`"), "no role reads %s", name)
	}
}
