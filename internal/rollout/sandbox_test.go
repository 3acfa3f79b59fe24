package rollout_test

import (
	"strconv"
	"strings"
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
}

func TestFieldsOfAnImageNeedOne(t *testing.T) {
	t.Parallel()

	s := rollout.Sandbox{User: "root", Workdir: "/app", ImageEnv: true, GradePaths: []string{"/srv"}}
	for range 10 {
		require.EqualError(t, s.CheckImage(), "sandbox.user: needs sandbox.image", "the error names the same field each time")
	}
}

// The workdir may be in the home or in /tmp, except for the folders of rolloutd there.
func TestCheckWorkdir(t *testing.T) {
	t.Parallel()

	for _, path := range []string{"/app", "/home/user", "/home/user/app", "/home/user/tests2", "/tmp", "/tmp/x"} {
		require.NoError(t, rollout.CheckWorkdir("workdir", path), path)
	}

	for path, message := range map[string]string{
		"app": "must be an absolute path", "/home/user/../x": "must be an absolute path", "/usr/bin": "folders of the system",
		"/var/tmp/x": "folders of the system", "/home/user/tests": "files of rolloutd", "/home/user/logs/x": "files of rolloutd",
		"/home/user/.local/x": "files of rolloutd", "/home/user/.graded/0": "files of rolloutd",
		"/home/user/.changed": "files of rolloutd",
	} {
		require.ErrorContains(t, rollout.CheckWorkdir("workdir", path), message, path)
	}
}

// Settings that a backend does not support are refused when the rollout is submitted.
func TestCheckBackend(t *testing.T) {
	t.Parallel()

	for field, s := range map[string]rollout.Sandbox{
		"sandbox.user":        {User: rollout.UserOfImage},
		"sandbox.workdir":     {Workdir: "/app"},
		"sandbox.grade_paths": {GradePaths: []string{"/srv"}},
		"sandbox.image_env":   {ImageEnv: true},
		"sandbox.env":         {Env: map[string]string{"A": "1"}},
	} {
		require.NoError(t, s.CheckBackend(rollout.DefaultBackend))
		require.NoError(t, s.CheckBackend(rollout.BackendDocker))
		err := s.CheckBackend(rollout.BackendE2B)
		require.Equal(t, fault.Invalid, fault.KindOf(err), field)
		require.ErrorContains(t, err, field+": ")
		require.ErrorContains(t, err, rollout.BackendE2B)
	}
}

func TestCheckEnv(t *testing.T) {
	t.Parallel()

	require.NoError(t, rollout.CheckEnv("env", map[string]string{"A_1": "", "_": "a b\n=$x", "PATH": "/bin"}))

	many := map[string]string{}
	for i := range 257 {
		many["A"+strconv.Itoa(i)] = ""
	}

	for message, env := range map[string]map[string]string{
		`env: must have names of letters, digits and '_', got "A-B"`: {"A-B": ""},
		`env: must have names of letters, digits and '_', got ""`:    {"": ""},
		`env: must have names of letters, digits and '_', got "1A"`:  {"1A": ""},
		"env.HOME: is the sandbox's own: leave it out":               {"HOME": "/"},
		"env.A: must not contain a zero byte":                        {"A": "\x00"},
		"env: must have at most 65536 bytes in all, got 65538":       {"A": strings.Repeat("x", 65537)},
		"env: must have at most 256 variables, got 257":              many,
	} {
		err := rollout.CheckEnv("env", env)
		require.Equal(t, fault.Invalid, fault.KindOf(err), message)
		require.ErrorContains(t, err, message)
	}
}
