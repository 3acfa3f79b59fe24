package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
)

// The documentation lists every variable with its setting.
func TestVariablesAreDocumented(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)

	for _, v := range config.Variables() {
		setting := "–"
		if v.Path != "" {
			setting = "`" + v.Path + "`"
		}

		require.True(
			t,
			strings.Contains(string(text), "| `"+v.Name+"` | "+setting+" |"),
			"%s (%s) is not in docs/configuration.md",
			v.Name,
			v.Path,
		)
	}
}
