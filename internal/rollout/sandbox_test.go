package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestUserOfASandbox(t *testing.T) {
	t.Parallel()

	for _, user := range []string{"", "root", "image", "app", "1500", "app:staff", "1500:100", "_apt", "www-data"} {
		require.NoError(t, rollout.Sandbox{Image: "x", User: user}.CheckImage(), user)
	}

	for _, user := range []string{"-1", "a b", "a:b:c", ":b", "a:", "$(id)", "a\n", "../x", "ä"} {
		err := rollout.Sandbox{Image: "x", User: user}.CheckImage()
		require.Equal(t, fault.Invalid, fault.KindOf(err), user)
		require.ErrorContains(t, err, "sandbox.user: must be")
	}

	s := rollout.Spec{
		Sandbox: rollout.Sandbox{Image: "x", User: "app"},
		Task:    rollout.Task{Instruction: "x", Verifier: rollout.Verifier{SameSandbox: true}},
	}
	require.ErrorContains(t, s.Validate(), `sandbox.user: "app" needs a verifier in a sandbox of its own`)
}

// Settings that a backend does not support are refused when the rollout is submitted.
func TestCheckBackend(t *testing.T) {
	t.Parallel()

	for field, s := range map[string]rollout.Sandbox{
		"sandbox.user":        {User: rollout.UserOfImage},
		"sandbox.workdir":     {Workdir: "/app"},
		"sandbox.grade_paths": {GradePaths: []string{"/srv"}},
		"sandbox.image_env":   {ImageEnv: true},
	} {
		require.NoError(t, s.CheckBackend(rollout.DefaultBackend))
		require.NoError(t, s.CheckBackend(rollout.BackendDocker))
		err := s.CheckBackend(rollout.BackendE2B)
		require.Equal(t, fault.Invalid, fault.KindOf(err), field)
		require.ErrorContains(t, err, field+": ")
		require.ErrorContains(t, err, rollout.BackendE2B)
	}
}
