package imageconfig_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
)

// Variables of an image that change what a shell runs do not reach the verifier; the agent has them.
func TestVerifierHasNoShellVariables(t *testing.T) {
	t.Parallel()
	use := imageWith(t, "", passwd, group)
	use.Image.Env = []string{
		"BASH_FUNC_cat%%=() { echo 1; }",
		"SHELLOPTS=xtrace",
		"PROMPT_COMMAND=x",
		"BASH_ENV=/x",
		"ENV=/x",
		"PS4=$(x)",
		"GLOBIGNORE=*",
		"IFS=a",
		"LANG=C.UTF-8",
		"PYTHONPATH=/opt/app",
	}
	g, err := imageconfig.Of(imageconfig.Stored(use), driver.Spec{ImageEnv: true}, true)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"LANG": "C.UTF-8", "PYTHONPATH": "/opt/app"}, g.Env.Verifier)
	require.Len(t, g.Env.Agent, len(use.Image.Env))
}
