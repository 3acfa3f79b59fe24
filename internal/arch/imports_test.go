package arch_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/rolloutd/rolloutd/"

// rule forbids imports. A package that matches pkg imports, directly or indirectly, no package that matches an entry
// of deny, unless that package matches pkg as well.
//
// A pattern is a package, or a package and all below it if it ends in "/...". Patterns without a dot before the first
// slash are relative to the module.
type rule struct {
	pkg  string
	deny []string
	why  string
}

// noEngine are the packages that run rollouts.
var noEngine = []string{"workflows/...", "activities/..."}

var rules = []rule{
	{
		pkg:  "...",
		deny: []string{"go.temporal.io/server/...", "github.com/temporalio/ui-server/..."},
		why:  "only the nested module embeds the Temporal server, which is large",
	},

	// The domain.
	{
		pkg:  "internal/fault",
		deny: []string{"internal/..."},
		why:  "every package may return these errors, so this one imports none",
	},
	{
		pkg: "internal/rollout",
		deny: append([]string{
			"internal/agent/...",
			"internal/sandbox/...",
			"internal/driver/...",
			"internal/gateway/...",
			"internal/store/...",
			"internal/seal",
			"internal/temporalx/...",
			"envserver/...",
		}, noEngine...),
		why: "the types of a rollout are shared by all parts, so they depend on none",
	},
	{
		pkg: "internal/producer",
		deny: append([]string{
			"internal/agent/...", "internal/sandbox/...", "internal/gateway/...", "internal/store/...",
			"internal/temporalx/...", "internal/delivery/...", "envserver/...",
		}, noEngine...),
		why: "the types of a producer need those of a rollout, and no part that runs them",
	},

	// The edge.
	{
		pkg: "envserver/...",
		deny: append([]string{
			"internal/sandbox/...", "internal/driver/...", "internal/gateway/...",
			"go.temporal.io/sdk/client", "go.temporal.io/sdk/worker",
		}, noEngine...),
		why: "the edge starts rollouts through an interface, so that it can be tested without an engine",
	},
	{
		pkg:  "envserver/internal/...",
		deny: []string{"envserver"},
		why:  "the server is made of its parts",
	},
	{
		pkg:  "envserver/internal/access",
		deny: []string{"envserver/internal/env", "envserver/internal/httpio"},
		why:  "access is decided without knowing the transport",
	},
	{
		pkg:  "envserver/internal/env",
		deny: []string{"envserver/internal/httpio", "envserver/internal/api"},
		why:  "an environment answers every transport in the same way",
	},

	// The engine.
	{
		pkg:  "workflows/...",
		deny: []string{"envserver/...", "internal/daemon/...", "internal/temporalx/rollouts"},
		why:  "a workflow that knew its callers would have to be replayed with them",
	},
	{
		pkg: "activities/...",
		deny: []string{
			"workflows/...", "envserver/...", "internal/daemon/...", "internal/temporalx/rollouts",
			"internal/gateway", "internal/gateway/upstream/...",
		},
		why: "an activity is called by its name, and reaches the gateway over HTTP, which may be another process",
	},
	{
		pkg:  "internal/host/...",
		deny: append([]string{"envserver/...", "internal/daemon/..."}, noEngine...),
		why:  "activities and the daemon use the parts of a host",
	},
	{
		pkg:  "internal/daemon/tier",
		deny: []string{"internal/daemon", "internal/config", "envserver/...", "internal/gateway/..."},
		why:  "starting and stopping tiers in order needs no knowledge of them",
	},
	{
		pkg:  "internal/daemon/machine",
		deny: append([]string{"internal/daemon", "envserver/..."}, noEngine...),
		why:  "facts of the machine are read before anything starts",
	},
	{
		pkg: "internal/pool",
		deny: append(
			[]string{"go.temporal.io/...", "internal/store/...", "internal/host/hostapi", "envserver/..."},
			noEngine...),
		why: "the next size of a pool is a function of what was observed",
	},
	{
		pkg:  "internal/pool/nomad",
		deny: []string{"internal/rollout"},
		why:  "a Nomad job runs a host, whatever the host runs",
	},

	// Sandboxes.
	{
		pkg: "internal/driver/...",
		deny: append([]string{
			"internal/sandbox", "internal/sandboxd", "internal/agent/...", "internal/gateway/...", "envserver/...",
		}, noEngine...),
		why: "package sandbox uses the drivers",
	},
	{
		pkg:  "internal/driver",
		deny: []string{"internal/driver/local", "internal/driver/docker", "internal/driver/e2b", "internal/sandboxd"},
		why:  "drivers implement this interface",
	},
	{
		pkg:  "internal/driver/local",
		deny: []string{"internal/driver/docker", "internal/driver/e2b"},
		why:  "a driver can be removed without touching another one",
	},
	{
		pkg:  "internal/driver/docker",
		deny: []string{"internal/driver/local", "internal/driver/e2b"},
		why:  "a driver can be removed without touching another one",
	},
	{
		pkg:  "internal/driver/e2b",
		deny: []string{"internal/driver/local", "internal/driver/docker"},
		why:  "a driver can be removed without touching another one",
	},
	{
		pkg: "internal/sandboxd/...",
		deny: append([]string{
			"go.temporal.io/...", "go.opentelemetry.io/...", "internal/gateway/...", "internal/agent/opencode/...",
			"envserver/...",
		}, noEngine...),
		why: "sandboxd starts for every sandbox, beside code that is not trusted: it must stay small",
	},
	{
		pkg: "cmd/sandboxd",
		deny: []string{
			"internal/rollout",
			"go.temporal.io/...",
			"go.opentelemetry.io/...",
			"github.com/prometheus/...",
		},
		why: "sandboxd starts for every sandbox, beside code that is not trusted: it must stay small",
	},
	{
		pkg:  "internal/sandboxd/filetool",
		deny: []string{"internal/sandboxd/process", "internal/sandboxd/modelchannel", "internal/fault"},
		why:  "the file tool is a process for each call of a tool: it must start fast",
	},
	{
		pkg:  "internal/sandboxd/files",
		deny: []string{"internal/sandboxd/process", "internal/sandboxd/modelchannel"},
		why:  "files, processes and the model channel can be read one without the others",
	},
	{
		pkg:  "internal/sandboxd/process",
		deny: []string{"internal/sandboxd/files", "internal/sandboxd/modelchannel"},
		why:  "files, processes and the model channel can be read one without the others",
	},
	{
		pkg:  "internal/sandboxd/modelchannel",
		deny: []string{"internal/sandboxd/files", "internal/sandboxd/process"},
		why:  "files, processes and the model channel can be read one without the others",
	},
	{
		pkg:  "internal/sandboxd/pty",
		deny: []string{"internal/sandboxd/files", "internal/sandboxd/modelchannel"},
		why:  "a terminal is a process, and needs no files or model calls",
	},
	{
		pkg:  "internal/grading",
		deny: append([]string{"go.temporal.io/...", "internal/gateway/...", "envserver/..."}, noEngine...),
		why:  "a reward depends on sandboxes and stored files alone",
	},
	{
		pkg: "internal/tool/...",
		deny: append([]string{
			"go.temporal.io/...", "internal/gateway/...", "internal/agent/...", "envserver/...",
		}, noEngine...),
		why: "a tool works in the same way for every caller",
	},
	{
		pkg:  "internal/agent/opencode/binary",
		deny: []string{"internal/agent", "internal/sandbox/...", "internal/driver/...", "internal/rollout"},
		why:  "commands install the binary without starting an agent",
	},
	{
		pkg:  "internal/scripted",
		deny: []string{"go.temporal.io/...", "internal/gateway/...", "internal/agent/opencode/..."},
		why:  "the scripted model is a model endpoint like any other",
	},

	// The gateway and training data.
	{
		pkg:  "internal/gateway/...",
		deny: append([]string{"go.temporal.io/...", "envserver/..."}, noEngine...),
		why:  "a model call does not wait for Temporal",
	},
	{
		pkg:  "internal/gateway",
		deny: []string{"internal/gateway/admin"},
		why:  "the HTTP API serves the gateway",
	},
	{
		pkg:  "internal/gateway/gatewayapi",
		deny: []string{"internal/gateway", "internal/gateway/admin", "internal/gateway/upstream/..."},
		why:  "a client of the gateway needs its types alone",
	},
	{
		pkg: "internal/gateway/dialect/...",
		deny: []string{
			"internal/gateway", "internal/gateway/upstream/...", "internal/trace", "internal/trajectory/...",
		},
		why: "reading and writing a model API needs no routes, no network and no disk",
	},
	{
		pkg:  "internal/gateway/dialect/reply",
		deny: []string{"internal/gateway/dialect/render"},
		why:  "reading a reply needs no writer of replies",
	},
	{
		pkg: "internal/gateway/upstream/...",
		deny: []string{
			"internal/gateway", "internal/trace", "internal/trajectory/...", "internal/sandboxd/...",
		},
		why: "calling an endpoint needs no routes and no records",
	},
	{
		pkg:  "internal/gateway/upstream/limits",
		deny: []string{"internal/gateway/upstream", "internal/gateway/dialect/..."},
		why:  "the limits of an endpoint hold for every kind of request",
	},
	{
		pkg:  "internal/trace",
		deny: []string{"internal/gateway/...", "internal/trajectory/..."},
		why:  "the log on disk stores records, whatever they hold",
	},
	{
		pkg:  "internal/trajectory/...",
		deny: []string{"internal/gateway", "internal/gateway/upstream/...", "internal/store/..."},
		why:  "training data is a function of turns",
	},
	{
		pkg:  "internal/continuation",
		deny: []string{"internal/gateway/...", "internal/agent/...", "internal/trace", "internal/trajectory/..."},
		why:  "agents and the gateway continue conversations by the same rules",
	},
	{
		pkg:  "internal/rawjson",
		deny: []string{"internal/gateway/...", "internal/rollout", "internal/trace", "internal/trajectory/..."},
		why:  "JSON is read as bytes, whatever it means",
	},
}

func TestDirectionOfImports(t *testing.T) {
	t.Parallel()

	all := packages(t)

	for _, rule := range rules {
		matched := false

		for pkg, deps := range all {
			if !matches(pkg, rule.pkg) {
				continue
			}

			matched = true

			for _, dep := range deps {
				for _, deny := range rule.deny {
					require.Falsef(
						t,
						matches(dep, deny) && !matches(dep, rule.pkg),
						"%s imports %s: %s",
						pkg,
						dep,
						rule.why,
					)
				}
			}
		}

		require.Truef(t, matched, "there is no package %s: mend the rule", rule.pkg)

		for _, deny := range rule.deny {
			require.Truef(t, exists(all, deny), "rule of %s: there is no package %s: mend the rule", rule.pkg, deny)
		}
	}
}

// If a workflow imported a package that does I/O, it could come to depend on it. Only activities may do I/O.
func TestWorkflowsImportNoIO(t *testing.T) {
	t.Parallel()

	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports "\n"}}`, module+"workflows").
		Output()
	require.NoError(t, err)

	denied := []string{
		"os", "net", "net/http", "os/exec", "io/ioutil", "math/rand", "math/rand/v2", "crypto/rand", "sync",
	}
	for _, imp := range strings.Fields(string(out)) {
		require.NotContains(t, denied, imp, "package workflows imports %s", imp)
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

// exists reports whether a pattern of a rule matches one of our packages, or is of another module.
func exists(all map[string][]string, pattern string) bool {
	if strings.Contains(strings.TrimSuffix(pattern, "/..."), ".") {
		return true
	}

	for pkg := range all {
		if matches(pkg, pattern) {
			return true
		}
	}

	return false
}

// matches reports whether the import path pkg matches a pattern of a rule.
func matches(pkg, pattern string) bool {
	if host, _, _ := strings.Cut(pattern, "/"); !strings.Contains(host, ".") || strings.HasPrefix(pattern, "...") {
		pattern = module + pattern
	}

	dir, below := strings.CutSuffix(pattern, "/...")

	return pkg == dir || below && strings.HasPrefix(pkg, dir+"/")
}
