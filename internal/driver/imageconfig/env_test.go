package imageconfig_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/rollout"
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

// A verifier knows the WORKDIR of its image. It gets no variable that names the workdir, also by a link.
func TestWorkdirOfAnImage(t *testing.T) {
	t.Parallel()
	use := imageWith(t, "", passwd, group)
	require.NoError(t, os.MkdirAll(filepath.Join(use.Layers[0], "data/app"), 0o755))
	require.NoError(t, os.Symlink("data/app", filepath.Join(use.Layers[0], "app")))

	use.Image.Workdir = "/app"
	use.Image.Env = []string{"PATH=/app/bin:/usr/bin", "PYTHONPATH=/app", "PERL5LIB=/data/app/lib"}

	for _, purpose := range []string{driver.PurposeAgent, driver.PurposeVerifier} {
		g, err := imageconfig.Of(imageconfig.Stored(use), driver.Spec{
			ImageEnv: true, Workdir: rollout.WorkdirOfImage, Labels: map[string]string{driver.LabelPurpose: purpose},
		}, true)
		require.NoError(t, err)
		require.Equal(t, "/data/app", g.Workdir)
		require.NotContains(t, g.Env.Agent, rollout.ImageWorkdir)

		want := map[string]string{"PATH": "/usr/bin"}
		if g.Verifier {
			want[rollout.ImageWorkdir] = "/app"
		}

		require.Equal(t, want, g.Env.Verifier, purpose)
	}
}
