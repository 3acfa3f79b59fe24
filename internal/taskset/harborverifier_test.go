package taskset_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/taskset"
)

// separateSettings are settings of a task whose verifier has an image of its own, with further lines of their sections.
func separateSettings(top, verifier, more string) string {
	return top + "\n[environment]\ndocker_image = \"app:1\"\nmemory_mb = 1024\n[verifier]\nenvironment_mode = \"separate\"\n" +
		verifier + "\n" + more
}

// A verifier may have a size where the task has none: the server's sandboxes have one.
func TestHarborVerifierSize(t *testing.T) {
	t.Parallel()

	_, err := open(t, folder(t, harborTask(map[string]string{
		"task.toml": separateSettings("", "", "[verifier.environment]\ncpus = 1\nmemory_mb = 1024\nstorage_mb = 10240\n"),
	}))).Task(0)
	require.NoError(t, err)
}

// The verifier runs in the image that the task names for it, else in that of tests/Dockerfile, else in a fresh one of
// the task's.
func TestHarborSeparateVerifier(t *testing.T) {
	t.Parallel()

	const (
		dockerfile = "FROM x\nRUN y\n"

		// where the image says, which may be only in its base
		ofImage = "cd \"${ROLLOUTD_IMAGE_WORKDIR:-/}\"; \n"
	)

	for name, c := range map[string]struct {
		files        map[string]string
		image, start string
		artifacts    []string
		exclude      map[string][]string
	}{
		"dockerfile": {
			files: map[string]string{
				"task.toml":        separateSettings(`artifacts = ["/app/out.txt", {source = "/srv/data/", destination = "d"}]`, "", ""),
				"tests/Dockerfile": dockerfile,
			},
			image: taskset.BuiltImages, start: "#!/bin/bash\n" + ofImage,
			artifacts: []string{"/logs/artifacts", "/app/out.txt", "/srv/data"},
		},
		"image": {
			files: map[string]string{
				"task.toml": separateSettings("", "env = {A = \"2\"}",
					"[verifier.environment]\ndocker_image = \"grader:1\"\nworkdir = \"/w\"\nmemory_mb = 512\nenv = {A = \"1\", B = \"1\"}\n"),
				"tests/Dockerfile": dockerfile,
			},
			image: "grader:1", start: "#!/bin/bash\nexport A='2'; export B='1'; cd '/w'; \n", artifacts: []string{"/logs/artifacts"},
		},
		"without some files": {
			files: map[string]string{"task.toml": separateSettings(`artifacts = [{source = "/a/", exclude = [".git", "*.pyc"]}]`, "", "")},
			image: "app:1", start: "#!/bin/bash\n" + ofImage, artifacts: []string{"/logs/artifacts", "/a"},
			exclude: map[string][]string{"/a": {".git", "*.pyc"}},
		},
		"that of the task": {
			files: map[string]string{"task.toml": separateSettings(`artifacts = ["/logs/artifacts"]`, "", "")},
			image: "app:1", start: "#!/bin/bash\n" + ofImage, artifacts: []string{"/logs/artifacts"},
		},
		"in the task's workdir": {
			files: map[string]string{
				"task.toml":        "[environment]\ndocker_image = \"app:1\"\nworkdir = \"/w\"\n[verifier]\nenvironment_mode = \"separate\"\n",
				"tests/Dockerfile": dockerfile,
			},
			image: taskset.BuiltImages, start: "#!/bin/bash\ncd '/w'; \n", artifacts: []string{"/logs/artifacts"},
		},
		"by its environment": {
			files: map[string]string{
				"task.toml": "[verifier.environment]\ndocker_image = \"grader:1\"\n",
			},
			image: "grader:1", start: "#!/bin/bash\n" + ofImage, artifacts: []string{"/logs/artifacts"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := folder(t, harborTask(c.files))
			task, err := open(t, dir).Task(0)
			require.NoError(t, err)

			verifier, _ := task.Arguments()["verifier"].(map[string]any)
			require.Equal(t, c.artifacts, verifier["artifacts"])

			if c.exclude != nil {
				require.Equal(t, c.exclude, verifier["exclude"])
			}

			require.True(t, strings.HasPrefix(task.TestScript, c.start), task.TestScript)
			require.Nil(t, task.Build)

			if sandbox, ok := task.Arguments()["sandbox"].(map[string]any); ok {
				require.Equal(t, []string{"/logs/artifacts"}, sandbox["grade_paths"], "the agent may write there")
			}

			if c.image != taskset.BuiltImages {
				require.Equal(t, c.image, verifier["image"])
				require.Nil(t, task.VerifierBuild)

				return
			}

			require.Equal(t, filepath.Join(dir, "tests"), task.VerifierBuild.Folder)
			require.Equal(t, 10*time.Minute, task.VerifierBuild.Timeout)
			require.Equal(t, task.VerifierBuild.Image, verifier["image"])
			require.True(t, strings.HasPrefix(task.VerifierBuild.Image, c.image))
		})
	}
}

// Commands make artifacts of what the agent has left, for instance a patch.
func TestHarborCollect(t *testing.T) {
	t.Parallel()

	task, err := open(t, folder(t, harborTask(map[string]string{"task.toml": separateSettings("", "", `
[[verifier.collect]]
command = "git diff > /logs/artifacts/my.patch"
timeout_sec = 30
[[verifier.collect]]
command = "cp /srv/a /logs/artifacts"
service = "main"
`)}))).Task(0)
	require.NoError(t, err)

	verifier, _ := task.Arguments()["verifier"].(map[string]any)
	require.Equal(t, []map[string]any{
		{"command": "git diff > /logs/artifacts/my.patch", "timeout_s": 30.0}, {"command": "cp /srv/a /logs/artifacts"},
	}, verifier["collect"])
}

func TestBrokenHarborSeparateVerifier(t *testing.T) {
	t.Parallel()

	for want, files := range map[string]map[string]string{
		"verifier.environment_mode: must be shared or": {"task.toml": "[verifier]\nenvironment_mode = \"other\"\n"},
		"verifier.environment_mode: separate needs an": {"task.toml": "[verifier]\nenvironment_mode = \"separate\"\n"},
		"verifier.environment: needs environment_mode": {
			"task.toml": "[verifier]\nenvironment_mode = \"shared\"\n[verifier.environment]\ndocker_image = \"a\"\n",
		},
		"verifier.environment_mode: separate is not supported for a task with steps": {
			"task.toml": separateSettings("", "", "[[steps]]\nname = \"a\"\n"), "steps/a/instruction.md": "x",
		},
		"verifier.environment.gpus: is not supported":    {"task.toml": separateSettings("", "", "[verifier.environment]\ngpus = 1\n")},
		"verifier.environment.network_mode: grading":     {"task.toml": separateSettings("", "", "[verifier.environment]\nnetwork_mode = \"allowlist\"\n")},
		"verifier.environment.memory_mb: the verifier's": {"task.toml": separateSettings("", "", "[verifier.environment]\nmemory = \"2G\"\n")},
		"verifier.collect: needs environment_mode":       {"task.toml": "[[verifier.collect]]\ncommand = \"true\"\n"},
		"verifier.collect[0].command: must not be empty": {"task.toml": separateSettings("", "", "[[verifier.collect]]\ncommand = \" \"\n")},
		"verifier.collect[0].service: must be main":      {"task.toml": separateSettings("", "", "[[verifier.collect]]\ncommand = \"a\"\nservice = \"db\"\n")},
		"verifier.collect[0].user: is not supported":     {"task.toml": separateSettings("", "", "[[verifier.collect]]\ncommand = \"a\"\nuser = \"root\"\n")},
		"tests/docker-compose.yaml: services beside the": {"task.toml": separateSettings("", "", ""), "tests/docker-compose.yaml": "x"},
		"services beside the verifier's image are not sup": {
			"task.toml":                 separateSettings("", "", "[verifier.environment]\ndocker_image = \"grader:1\"\n"),
			"tests/docker-compose.yaml": "x",
		},
		"the tests address the service db, but no service": {
			"task.toml":                       separateSettings("", "", ""),
			"environment/docker-compose.yaml": "services: {main: {}, db: {image: \"postgres:16\"}}\n",
			"tests/check.py":                  "connect(host='db')\n",
		},
		"artifacts[0]: must be a path":                     {"task.toml": separateSettings("artifacts = [1]", "", "")},
		"artifacts[0]: must be an absolute path":           {"task.toml": separateSettings(`artifacts = ["out.txt"]`, "", "")},
		"artifacts[0]: must be outside the folders of":     {"task.toml": separateSettings(`artifacts = ["/tmp/../etc/x"]`, "", "")},
		"artifacts[1].source: must be a folder below /":    {"task.toml": separateSettings(`artifacts = ["/a", {source = "/"}]`, "", "")},
		"artifacts[0]: /out.txt: a file must be in a":      {"task.toml": separateSettings(`artifacts = ["/out.txt"]`, "", "")},
		"artifacts[0].service: is not supported":           {"task.toml": separateSettings(`artifacts = [{source = "/a", service = "db"}]`, "", "")},
		"artifacts[0].exclude: must be a list of patterns": {"task.toml": separateSettings(`artifacts = [{source = "/a", exclude = [1]}]`, "", "")},
	} {
		_, err := open(t, folder(t, below("x", harborTask(files)))).Task(0)
		require.ErrorContains(t, err, want, want)
	}
}

// Tests address a service where its name is a host's.
func TestHarborServicesAddressed(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]bool{
		"connect(host='db')": true, `{"host": "db", "port": 1}`: true, "PGHOST=db psql": true, "curl http://db/x": true,
		"redis://:x@db:6379": true, "psql -h db -U x": true, "socket.connect(('db', 5432))": true, "nc db:5432": true,
		"curl db:8080": true, "--host db": true, "getaddrinfo('db', 80)": true,

		"# the db dump": false, "host.db": false, "mydb:5432": false, "name == 'db'": false, "['db', 'web']": false,
		"from db import x": false, "/app/db/x": false, "http://dbs/": false, "on the host dbs": false,
	} {
		files := map[string]string{
			"task.toml":                       separateSettings("", "", ""),
			"environment/docker-compose.yaml": "services: {main: {}, db: {image: \"postgres:16\"}}\n",
			"tests/check.py":                  text + "\n",
		}
		_, err := open(t, folder(t, below("x", harborTask(files)))).Task(0)
		require.Equal(t, want, err != nil, "%s: %v", text, err)
	}
}

// Tests of a verifier with an image of its own may speak of a service that they do not address, and address those of a
// task without such a verifier.
func TestHarborServicesOfTests(t *testing.T) {
	t.Parallel()

	const compose = "services: {main: {}, db: {image: \"postgres:16\"}}\n"

	for name, files := range map[string]map[string]string{
		"not addressed": {"task.toml": separateSettings("", "", ""), "tests/check.py": "# the db dump\n"},
		"own image": {
			"task.toml":      separateSettings("", "", "[verifier.environment]\ndocker_image = \"grader:1\"\n"),
			"tests/check.py": "get('http://db/')\n",
		},
		"not separate": {"task.toml": "[environment]\ndocker_image = \"app:1\"\n", "tests/check.py": "psql -h db:5432\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			files["environment/docker-compose.yaml"] = compose
			_, err := open(t, folder(t, below("x", harborTask(files)))).Task(0)
			require.NoError(t, err)
		})
	}
}

// Another way to grade leaves the image of the task's verifier, a time for calls the time for the tests, and a backend the
// image.
func TestChange(t *testing.T) {
	t.Parallel()

	args := map[string]any{
		"instruction": "a", "verifier": map[string]any{"image": "grader:1"}, "limits": map[string]any{"verifier_s": 600},
		"sandbox": map[string]any{"image": "app:1"},
	}
	taskset.Change(args, map[string]any{
		"instruction": "b", "verifier": map[string]any{"grade": "fresh"}, "limits": map[string]any{"call_s": 1200},
		"sandbox": map[string]any{"backend": "docker"},
	})
	require.Equal(t, map[string]any{
		"instruction": "b", "verifier": map[string]any{"image": "grader:1", "grade": "fresh"},
		"limits": map[string]any{"verifier_s": 600, "call_s": 1200}, "sandbox": map[string]any{"image": "app:1", "backend": "docker"},
	}, args)
}

// A way to grade that is meant for all tasks of a set leaves those as they are that cannot have it. What a task itself says
// stays, for a server to refuse it.
func TestChangeOfTheGrade(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ before, changes, want string }{
		"plain":              {`{}`, `{"verifier": {"grade": "shared"}}`, "shared"},
		"live to shared":     {`{"verifier": {"grade": "live"}}`, `{"verifier": {"grade": "shared"}}`, "shared"},
		"image":              {`{"verifier": {"image": "a"}}`, `{"verifier": {"grade": "shared"}}`, "fresh"},
		"image, live":        {`{"verifier": {"image": "a"}}`, `{"verifier": {"grade": "live"}}`, "fresh"},
		"steps":              {`{"steps": [{}]}`, `{"verifier": {"grade": "shared"}}`, "fresh"},
		"steps, live":        {`{"steps": [{}]}`, `{"verifier": {"grade": "live"}}`, "live"},
		"live steps":         {`{"steps": [{}], "verifier": {"grade": "live"}}`, `{"verifier": {"grade": "shared"}}`, "live"},
		"default and image":  {`{"verifier": {"grade": "shared"}}`, `{"verifier": {"image": "a"}}`, "fresh"},
		"default and steps":  {`{"verifier": {"grade": "shared"}}`, `{"steps": [{}]}`, "fresh"},
		"the task's own":     {`{"steps": [{}], "verifier": {"grade": "shared"}}`, `{"seed": 1}`, "shared"},
		"the call's own":     {`{}`, `{"steps": [{}], "verifier": {"grade": "shared"}}`, "shared"},
		"other ways of both": {`{"steps": [{}], "verifier": {"grade": "shared"}}`, `{"verifier": {"grade": "live"}}`, "live"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var args, changes map[string]any
			require.NoError(t, json.Unmarshal([]byte(c.before), &args))
			require.NoError(t, json.Unmarshal([]byte(c.changes), &changes))
			taskset.Change(args, changes)
			require.Equal(t, c.want, taskset.GradeOf(args))
		})
	}
}

// reward_key names the reward of each test script. Where there is none it stays, for a server to refuse it.
func TestChangeOfTheRewardKey(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ task, want string }{
		"script": {
			`{"test_script": "a", "reward_key": "old"}`,
			`{"test_script": "a", "reward_key": "new"}`,
		},
		"steps": {
			`{"steps": [{"test_script": "a"}, {"verify": ["b"]}]}`,
			`{"steps": [{"test_script": "a", "reward_key": "new"}, {"verify": ["b"]}]}`,
		},
		"commands": {`{"verify": ["b"]}`, `{"verify": ["b"], "reward_key": "new"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var args map[string]any
			require.NoError(t, json.Unmarshal([]byte(c.task), &args))
			taskset.Change(args, map[string]any{"reward_key": "new"})

			got, err := json.Marshal(args)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
		})
	}
}
