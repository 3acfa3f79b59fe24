package doctor

import (
	"context"
	"os"
	"os/exec"

	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/driver"
)

// Agent checks that OpenCode is installed or can be installed.
func Agent(agentsDir string) Check {
	return func(context.Context) []driver.Finding {
		cache := binary.New(binary.Options{AgentsDir: agentsDir})
		have := exists(cache.Path())
		npm, err := exec.LookPath("npm")

		return []driver.Finding{agentFinding(cache, have, err == nil), npmFinding(npm, have, err == nil)}
	}
}

func agentFinding(cache *binary.Cache, have, npm bool) driver.Finding {
	f := driver.Finding{Name: "opencode " + cache.Version(), Detail: cache.Path()}

	switch {
	case have:
	case npm:
		f.Detail = "not installed yet; the first rollout installs it with npm and verifies it"
	default:
		f.Level, f.Detail = driver.Fail, "not at "+cache.Path()+", and npm is missing"
		f.Fix = "apt-get install npm"
	}

	return f
}

func npmFinding(path string, have, npm bool) driver.Finding {
	f := driver.Finding{Name: "npm", Detail: path}
	if npm {
		return f
	}

	f.Level, f.Detail, f.Fix = driver.Warn, "missing; it installs the agent", "apt-get install npm"
	if !have {
		f.Level = driver.Fail
	}

	return f
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
