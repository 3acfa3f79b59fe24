package taskset_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A field that Harbor does not know has no effect, which is noted. One that it knows is not.
func TestUnknownHarborFields(t *testing.T) {
	t.Parallel()

	const known = `
schema_version = "1.4"
artifacts = ["/app/a", {source = "/app/b", destination = "b"}]
[task]
name = "org/x"
authors = [{name = "a"}]
[metadata]
difficulty = "easy"
nodes.of = ["author"]
[environment]
docker_image = "x:1"
allow_internet = false
build_timeout_sec = 60.0
cpus = 1
gpus = 0
gpu_types = []
os = "Linux"
mcp_servers = []
env = {A = "b"}
healthcheck = {command = "true", interval_sec = 1.0, timeout_sec = 1.0, start_period_sec = 0.0, start_interval_sec = 1.0, retries = 2}
[agent]
user = "root"
timeout_sec = 1
[solution]
env = {A = "b"}
[verifier]
environment_mode = "separate"
collect = [{command = "true", service = "main", timeout_sec = 3.0}]
`

	for text, notes := range map[string][]string{
		known: nil,
		"":    nil,
		"inherit_prior_session = true\n[environment]\nnodes = 2\ntype = \"docker\"\n[environment.pool]\nsize = 1\n[verifier]\ntimeout_secs = 3\n": {
			"inherit_prior_session", "environment.nodes", "environment.type", "environment.pool", "verifier.timeout_secs",
		},
	} {
		task, err := open(t, folder(t, harborTask(map[string]string{"task.toml": text}))).Task(0)
		require.NoError(t, err)

		var want []string
		for _, field := range notes {
			want = append(want, "task.toml: "+field+": is no field of Harbor 0.26 and has no effect")
		}

		require.ElementsMatch(t, want, task.Notes)
	}
}
