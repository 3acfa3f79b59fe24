package arch_test

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/rolloutd/rolloutd/"

// rules forbid imports: a package whose path has the prefix may not import, directly or indirectly, a package in deny. Paths without a
// dot are relative to the module.
var rules = []struct {
	prefix string
	deny   []string
	why    string
}{
	{"internal/fault", []string{"internal/"}, "the ground everything stands on"},
	{"internal/rollout", []string{"internal/agent", "internal/sandbox", "internal/gateway", "internal/store", "internal/seal", "internal/temporalx", "envserver", "workflows", "activities"}, "the domain imports error kinds and nothing else of ours"},
	{"internal/producer", []string{"internal/agent", "internal/sandbox", "internal/gateway", "internal/store", "internal/temporalx", "internal/delivery", "envserver", "workflows", "activities"}, "producers are domain types above rollouts"},
	{"internal/agent/opencode/binary", []string{"internal/agent", "internal/sandbox", "internal/rollout"}, "a binary knows no agent that runs it"},
	{"internal/sandboxd", []string{"go.temporal.io/", "go.opentelemetry.io/", "internal/gateway", "internal/agent/opencode", "envserver", "workflows", "activities"}, "sandboxd is small and runs beside untrusted code"},
	{"internal/sandboxd/files", []string{"internal/sandboxd/process", "internal/sandboxd/modelchannel"}, "files, processes and the model channel do not know each other"},
	{"internal/sandboxd/process", []string{"internal/sandboxd/files", "internal/sandboxd/modelchannel"}, "files, processes and the model channel do not know each other"},
	{"internal/sandboxd/modelchannel", []string{"internal/sandboxd/files", "internal/sandboxd/process"}, "files, processes and the model channel do not know each other"},
	{"internal/sandboxd/pty", []string{"internal/sandboxd/files", "internal/sandboxd/modelchannel", "internal/sandboxd/exec"}, "shells know processes and calls"},
	{"internal/sandboxd/exec", []string{"internal/sandboxd/files", "internal/sandboxd/modelchannel", "internal/sandboxd/pty"}, "commands know processes and calls"},
	{"internal/sandboxd/filetool", []string{"internal/sandboxd/process", "internal/sandboxd/modelchannel", "internal/fault"}, "a file tool is a small program"},
	{"cmd/sandboxd", []string{"internal/rollout", "go.temporal.io/", "go.opentelemetry.io/", "github.com/prometheus/"}, "sandboxd is small and runs beside untrusted code"},
	{"internal/sandbox/driver", []string{"internal/sandbox/local", "internal/sandboxd"}, "drivers import the driver interface, never the reverse"},
	{"internal/sandbox/docker", []string{"internal/sandbox/local", "internal/sandbox/e2b"}, "drivers do not know each other"},
	{"internal/sandbox/e2b", []string{"internal/sandbox/local", "internal/sandbox/docker"}, "drivers do not know each other"},
	{"internal/sandbox/local", []string{"internal/sandbox/docker", "internal/sandbox/e2b"}, "drivers do not know each other"},
	{"envserver", []string{"workflows", "activities", "internal/sandbox", "internal/gateway", "go.temporal.io/sdk/client", "go.temporal.io/sdk/worker"}, "the edge knows rollouts, not how they are run"},
	{"envserver/internal", []string{"envserver"}, "the parts of the edge do not know it"},
	{"envserver/internal/access", []string{"envserver/internal/env", "envserver/internal/httpio"}, "access control is below the environments and their HTTP"},
	{"envserver/internal/reply", []string{"envserver/internal/env", "envserver/internal/httpio", "envserver/internal/api", "envserver/internal/access"}, "types of the wire know no server"},
	{"envserver/internal/env", []string{"envserver/internal/httpio", "envserver/internal/api"}, "what is served knows no HTTP routes"},
	{"workflows", []string{"envserver", "internal/daemon", "internal/temporalx/rollouts"}, "a workflow is below the edges"},
	{"activities", []string{"envserver", "internal/daemon", "internal/temporalx/rollouts", "workflows"}, "activities are called by workflows, by name"},
	{"internal/host", []string{"activities", "workflows", "envserver", "internal/daemon"}, "activities and the daemon use the host's parts, never the reverse"},
	{"internal/gateway", []string{"go.temporal.io/", "envserver", "workflows", "activities"}, "the per-call path touches no Temporal"},
	{"internal/grading", []string{"go.temporal.io/", "internal/gateway", "envserver", "workflows", "activities"}, "grading knows sandboxes and the store"},
	{"internal/rawjson", []string{"internal/gateway", "internal/rollout", "internal/trace", "internal/trajectory"}, "JSON by bytes knows no domain"},
	{"internal/gateway/dialect", []string{"internal/gateway", "internal/gateway/upstream", "internal/gateway/proxy", "internal/trace", "internal/trajectory"}, "the model APIs know no routes, no network and no disk"},
	{"internal/gateway/dialect/reply", []string{"internal/gateway/dialect/render"}, "reading a reply needs no writer of replies"},
	{"internal/gateway/upstream/limits", []string{"internal/gateway/upstream", "internal/gateway/dialect"}, "limits know endpoints by name, not requests"},
	{"internal/gateway/proxy/journal", []string{"internal/gateway/proxy", "internal/gateway/upstream", "internal/trace"}, "a journal is a file, not a route"},
	{"internal/gateway/proxy", []string{"internal/gateway/admin"}, "the HTTP API is above the gateway it serves"},
	{"internal/daemon/tier", []string{"internal/daemon", "internal/config", "envserver", "internal/gateway"}, "tiers know nothing of what they start"},
	{"internal/daemon/machine", []string{"internal/daemon", "envserver", "workflows", "activities"}, "facts of the machine are below the daemon"},
	{"internal/gateway/upstream", []string{"internal/gateway/proxy", "internal/trace", "internal/trajectory", "internal/sandboxd"}, "calling an endpoint knows no routes and no records"},
	{"internal/trace", []string{"internal/gateway", "internal/trajectory"}, "the log on disk knows nothing of RL or of model APIs"},
	{"internal/trajectory", []string{"internal/gateway/upstream", "internal/gateway/proxy", "internal/store"}, "training data is made of turns alone"},
	{"activities", []string{"internal/gateway/upstream", "internal/gateway/proxy"}, "a worker reaches the gateway through its client"},
	{"internal/tool", []string{"go.temporal.io/", "internal/gateway", "internal/agent", "envserver", "workflows", "activities"}, "tools know sandboxes, not who calls them"},
	{"internal/pool", []string{"go.temporal.io/", "internal/store", "internal/hostapi", "envserver", "workflows", "activities"}, "what a pool does next follows from what was observed"},
	{"internal/pool/nomad", []string{"internal/rollout"}, "a job knows no rollouts"},
	{"internal/scripted", []string{"go.temporal.io/", "internal/gateway", "internal/agent/opencode"}, "the scripted model is a model endpoint like any other"},
	{"", []string{"go.temporal.io/server", "github.com/temporalio/ui-server"}, "only the nested module embeds the Temporal server"},
}

func TestDirectionOfImports(t *testing.T) {
	t.Parallel()
	for pkg, deps := range packages(t) {
		for _, rule := range rules {
			if !under(pkg, full(rule.prefix)) {
				continue
			}
			for _, dep := range deps {
				for _, deny := range rule.deny {
					require.Falsef(t, under(dep, full(deny)) && !under(dep, full(rule.prefix)),
						"%s imports %s: %s", pkg, dep, rule.why)
				}
			}
		}
	}
}

// Drivers are below the portable sandbox and import only its package driver. The rules above cannot express that, because the drivers'
// folders are inside the folder of the portable sandbox.
func TestDriversAreBelowTheSandbox(t *testing.T) {
	t.Parallel()
	for pkg, deps := range packages(t) {
		if !under(pkg, full("internal/sandbox")) || pkg == full("internal/sandbox") || pkg == full("internal/sandbox/sandboxtest") {
			continue
		}
		for _, above := range []string{"internal/sandbox", "internal/sandboxd"} {
			require.NotContains(t, deps, full(above), "%s imports %s: drivers are below both", pkg, above)
		}
	}
}

// A package with more files has a second subject and should be split.
func TestPackagesHaveFewFiles(t *testing.T) {
	t.Parallel()
	const most = 20
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{len .GoFiles}}", module+"...").Output()
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		pkg, count, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(count)
		require.NoError(t, err)
		require.LessOrEqual(t, n, most, "%s has %d files beside its tests", pkg, n)
	}
}

// If a workflow imported a package that does I/O, it could come to depend on it. Only activities may do I/O.
func TestWorkflowsImportNoIO(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports "\n"}}`, module+"workflows").Output()
	require.NoError(t, err)
	for _, imp := range strings.Fields(string(out)) {
		for _, io := range []string{"os", "net", "net/http", "os/exec", "io/ioutil", "math/rand", "math/rand/v2", "crypto/rand", "sync"} {
			require.NotEqual(t, io, imp, "package workflows imports %s", io)
		}
	}
}

// packages returns the transitive imports of every package of the root module.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Deps", module+"...").Output()
	require.NoError(t, err)
	all := map[string][]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath string
			Deps       []string
		}
		require.NoError(t, dec.Decode(&p))
		all[p.ImportPath] = p.Deps
	}
	require.NotEmpty(t, all)
	return all
}

// full returns the import path that a rule's path stands for.
func full(path string) string {
	if strings.Contains(path, ".") {
		return strings.TrimSuffix(path, "/")
	}
	return strings.TrimSuffix(module+path, "/")
}

// under reports whether path is dir or below it.
func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
