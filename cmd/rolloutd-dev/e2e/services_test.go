package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// getFunction is get: a function of bash that requests a path of a host.
const getFunction = `get() { exec 3<>/dev/tcp/$1/80 && printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3 && local line last; while read -r line <&3; do last=$line; done; echo "$last"; }; `

// servicesTask is a Harbor task with a web server that reads a volume which another service has filled.
func servicesTask() map[string]string {
	return map[string]string{
		"task.toml":              "",
		"instruction.md":         "Ask the host web for its word, and write it into /app/answer.txt.",
		"environment/Dockerfile": "FROM scratch\nCOPY app /app\nWORKDIR /app\n",
		"environment/app/readme": "x\n",
		"environment/web/Dockerfile": "FROM scratch\nCOPY sidecar /bin/sidecar\nCOPY empty /var/seed/\n" +
			"ENV ADDR=0.0.0.0:80\nENTRYPOINT [\"/bin/sidecar\"]\n",
		"environment/web/empty": "",
		"environment/docker-compose.yaml": `
services:
  main:
    depends_on: {web: {condition: service_healthy}}
    volumes: ["words:/words:ro"]
  web:
    build: web
    depends_on: {seed: {condition: service_completed_successfully}}
    volumes: ["words:/data"]
    healthcheck: {test: [CMD, /bin/sidecar, check], interval: 1s, retries: 20}
    mem_limit: 512m
  seed:
    build: web
    command: [seed]
    environment: {WORD: heron}
    volumes: ["words:/var/seed"]
    mem_limit: 512m
volumes: {words: {}}
`,
		// the service of the verifier is another one, which has counted nothing yet
		"tests/test.sh": "#!/bin/bash\n" + getFunction + `reward=0
[ "$(< /app/answer.txt)" = "$(get web /word)" ] && [ "$(< /words/word)" = heron ] && [ "$(get web /count)" = 1 ] && reward=1
echo $reward > /logs/verifier/reward.txt
`,
	}
}

// sidecarTask writes the task with its program into a folder, builds its images, and returns it.
func sidecarTask(t *testing.T, srv *dev) taskset.Task {
	t.Helper()

	dir := filepath.Join(t.TempDir(), "services")

	writeFiles(t, dir, servicesTask())

	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "environment/web/sidecar"), "./testdata/sidecar")

	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	return buildTask(t, srv, dir)
}

// The agent and the verifier reach the services of a task by their names, and share its volumes. A service that does
// not become ready ends the rollout before the agent starts; one that ends later does not, since the agent may have
// ended it.
func TestServices(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("services need a worker that runs as root")
	}

	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_IMAGE_REGISTRIES=registry.invalid"}})
	task := sidecarTask(t, srv)

	ask := func(agent string, change func(web *rollout.Service)) args {
		a := args(task.Arguments())
		// the image has no programs beside bash
		a["agent"], a["solution"] = agent, []string{getFunction + "get web /word > /app/answer.txt"}

		box := args{}
		for name, value := range a["sandbox"].(map[string]any) {
			box[name] = value
		}

		services := append([]rollout.Service{}, box["services"].([]rollout.Service)...)
		for i := range services {
			if services[i].Name == "web" && change != nil {
				change(&services[i])
			}
		}

		box["services"] = services
		a["sandbox"] = box

		return a
	}

	for agent, reward := range map[string]float64{rollout.AgentOracle: 1, rollout.AgentNop: 0} {
		result := runRollout(t, srv.url, ask(agent, nil))
		require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
		require.NotNil(t, result.Reward, "%+v", result.Grading)
		require.InDelta(t, reward, *result.Reward, 0, "%+v %+v", result.Grading, result.VerifierStderr)
		require.Equal(t, []rollout.ServiceState{
			{Name: "seed"}, {Name: "web", Running: true, ExitCode: -1, Log: "serving at 0.0.0.0:80\n"},
		}, result.Services)
	}

	ended := ask(rollout.AgentOracle, nil)
	ended["solution"] = []string{getFunction + "get web /word > /app/answer.txt; get web /end; :"}
	result := runRollout(t, srv.url, ended)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1, *result.Reward, 0, "%+v", result.Grading)
	require.Equal(t, rollout.ServiceState{
		Name: "web", ExitCode: 7, Log: "serving at 0.0.0.0:80\nasked to end\n",
	}, result.Services[1])

	for want, change := range map[string]func(*rollout.Service){
		`service "web": ended with exit status 3; it has written: no license found`: func(s *rollout.Service) {
			s.Command = []string{"die"}
		},
		`service "web": its health check failed 2 times: exit status 1 not ready: 503 Service Unavailable`: func(s *rollout.Service) {
			s.Env = map[string]string{"NEVER": "1"}
			s.Healthcheck = &rollout.Healthcheck{Test: s.Healthcheck.Test, Interval: 0.1, Retries: 2}
		},
		`service "web": start /bin/missing`: func(s *rollout.Service) { s.Entrypoint = []string{"/bin/missing"} },
	} {
		result := runRollout(t, srv.url, ask(rollout.AgentOracle, change))
		require.Equal(t, rollout.SetupFailed, result.Outcome, deref(result.Error))
		require.Contains(t, deref(result.Error), want)
		require.Nil(t, result.Reward)
		require.Len(t, result.Attempts, 1)
	}

	left, err := os.ReadDir(filepath.Join(srv.data, "sandboxes"))
	require.NoError(t, err)

	for _, entry := range left {
		require.False(t, entry.IsDir(), "%s is left", entry.Name())
	}
}

// An attempt ends when the sandbox of a service is lost, also if the agent would go on. The result names the service.
func TestServiceIsLost(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("services need a worker that runs as root")
	}

	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_IMAGE_REGISTRIES=registry.invalid"}})

	a := args(sidecarTask(t, srv).Arguments())
	a["agent"], a["limits"] = rollout.AgentOracle, args{"attempts": 1}
	// without an end
	a["solution"] = []string{"exec 3<>/dev/tcp/web/80; exec 4<> <(:); read -u 4; :"}

	id := start(t, srv.url, a)
	waitFor(t, srv.url, id, "the agent", func(s state) bool { return s.Phase == rollout.PhaseAgent })
	require.True(t, killSandboxOf(t, srv.data, "*"+id+"*.s-web"))

	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.InfraFailed, result.Outcome)
	require.Nil(t, result.Reward)
	require.Contains(t, deref(result.Error), `service "web": its sandbox was lost`)
}
