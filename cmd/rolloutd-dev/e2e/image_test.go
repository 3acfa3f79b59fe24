package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The solution and the verifier of a rollout run in an imported image, each in a fresh copy. A rollout with
// an image that no host can have is refused when it is submitted.
func TestRolloutOnAnImage(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_IMAGE_REGISTRIES=registry.invalid"}})
	// the image has no programs: bash comes from the host
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "srv"), 0o777))
	require.NoError(t, os.Chmod(filepath.Join(folder, "srv"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "srv/answer"), []byte("42\n"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(folder, "srv/answer"), 0o666))
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "image", "import", "--data", srv.data, folder, "answer:1").
		CombinedOutput()
	require.NoError(t, err, "%s", out)

	task := args{
		"instruction": "copy the answer", "agent": rollout.AgentOracle, "sandbox": args{"image": "answer:1"},
		"solution": []string{"read a < /srv/answer; echo $a > answer.txt; echo 41 > /srv/answer"},
		"verify":   []string{"read a < answer.txt; read b < /srv/answer; [ $a = 42 ] && [ $b = 42 ]"},
	}
	result := runRollout(t, srv.url, task)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1, *result.Reward, 0, "%+v", result.VerifyResults)

	// As root, the solution may change all files of the image. The verifier gets only the workdir, here
	// outside of the home, and the folders that the task names.
	task["sandbox"] = args{"image": "answer:1", "user": "root", "workdir": "/app", "grade_paths": []string{"/srv"}}
	task["solution"] = []string{
		"set -e; [ $UID = 0 ]; read a < /srv/answer; echo $a > answer.txt; echo $a > /srv/copy; echo x > /cheat; echo x > /opt/other",
	}
	task["verify"] = []string{
		"read a < /app/answer.txt; read b < /srv/copy; [ $a = 42 ] && [ $b = 42 ]",
		"[ ! -e /cheat ] && [ ! -e /opt/other ]",
	}
	result = runRollout(t, srv.url, task)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1, *result.Reward, 0, "%+v", result.VerifyResults)

	// A user of the image with a numeric id cannot change the rest of the image.
	task["sandbox"] = args{"image": "answer:1", "user": "1500:7", "workdir": "/app"}
	task["solution"] = []string{
		"set -e; [ $UID = 1500 ]; read a < /srv/answer; echo $a > answer.txt; ! echo x > /cheat",
	}
	task["verify"] = []string{"read a < /app/answer.txt; [ $a = 42 ] && [ ! -e /cheat ]"}
	result = runRollout(t, srv.url, task)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1, *result.Reward, 0, "%+v", result.VerifyResults)

	task["sandbox"] = args{"user": "root"}
	_, err = call(t.Context(), srv.url, "run_rollout", task)
	require.ErrorContains(t, err, "sandbox.user: needs sandbox.image")

	task["sandbox"] = args{"image": "missing:1"}
	_, err = call(t.Context(), srv.url, "run_rollout", task)
	require.ErrorContains(t, err, `sandbox.image: image: "missing:1" is not on this host`)
}

// rootsEnv is the environment variable with the folder that deploy/roots.sh creates.
const rootsEnv = "SANDBOX_TEST_ROOTS"

// OpenCode, setup and grading run in a plain Debian and in a system whose only C library is musl. They run
// as the sandbox's user, as a user of the image, and as root, which installs packages. All of this also
// runs in containers.
func TestRolloutOnOtherSystems(t *testing.T) {
	t.Parallel()

	roots := os.Getenv(rootsEnv)
	if roots == "" {
		t.Skip(rootsEnv + " is not set: deploy/suite.sh systems")
	}

	model := startModel(t, `
- match: look around
  turns:
    - tool_calls: [{name: bash, arguments: {command: "uname > log.txt; echo $UID >> log.txt", description: "Look"}}]
    - text: Done.
`)
	engine := dockertest.RemappedForTest(t)
	srv := startDev(t, devOptions{
		modelURL: model.url,
		env:      []string{"DOCKER_HOST=" + engine.Socket},
		flags:    []string{"--config", configFile(t, "sandbox:\n  backends: {local: {}, docker: {}}\n")},
	})

	for _, root := range []string{"debian", "musl"} {
		folder, image := filepath.Join(roots, root), root+":1"
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "image", "import", "--data", srv.data, folder, image).
			CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NoError(t, engine.Import(t.Context(), folder, image, ""))
	}

	for _, c := range []struct {
		backend, root, user, id string
		setup                   []string
	}{
		{"local", "debian", "", "1000", nil},
		{"local", "debian", "www-data", "33", nil},
		{"local", "debian", "root", "0", []string{"apt-get install -y /srv/busybox.deb && busybox true"}},
		{"local", "musl", "", "1000", nil},
		{"local", "musl", "app", "1500", nil},
		{"local", "musl", "root", "0", []string{"echo new > /usr/bin/new"}},
		{"docker", "debian", "", "1000", nil},
		{"docker", "debian", "www-data", "33", nil},
		{"docker", "debian", "root", "0", []string{"apt-get install -y /srv/busybox.deb && busybox true"}},
		{"docker", "musl", "", "1000", nil},
		{"docker", "musl", "app", "1500", nil},
		{"docker", "musl", "root", "0", []string{"echo new > /usr/bin/new"}},
	} {
		result := runRollout(t, srv.url, args{
			"instruction": "look around",
			"endpoint":    "scripted",
			"sandbox":     args{"backend": c.backend, "image": c.root + ":1", "user": c.user},
			"setup":       c.setup,
			"verify": []string{
				`{ read system; read id; } < log.txt; [ "$system" = Linux ] && [ "$id" = ` + c.id + ` ] && [ "$(uname)" = Linux ]`,
			},
		})
		require.Equal(
			t,
			rollout.Completed,
			result.Outcome,
			"%s: %s as %q: %s",
			c.backend,
			c.root,
			c.user,
			deref(result.Error),
		)
		require.NotNil(t, result.Reward)
		require.InDelta(t, 1, *result.Reward, 0, "%s: %s as %q: %+v", c.backend, c.root, c.user, result.VerifyResults)
		t.Logf("%s: %s as %q: %s", c.backend, c.root, c.user, result.Outcome)
	}
}
