// Package jsclient lets tests run scripts with real clients for JavaScript. It is a fixture: only tests import it.
package jsclient

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/filelock"
)

// Packages of clients: MCP is the SDK of the Model Context Protocol, MCP2 its second generation, E2B the
// SDK of E2B's sandboxes. Axe checks pages for people who cannot see them.
const (
	MCP  = "@modelcontextprotocol/sdk@1.32.2"
	MCP2 = "@modelcontextprotocol/client@2.4.0"
	E2B  = "e2b@2.51.0"
	Axe  = "axe-core@4.14.1"
)

// Run runs a script with the package installed. The script must print "all checks held" at its end. Without
// node the test is skipped, except on CI.
func Run(t *testing.T, pkg, script string, args ...string) {
	t.Helper()

	needNode(t)

	text, err := os.ReadFile(script)
	require.NoError(t, err)
	// Node looks for packages beside the script, so that it runs from a folder of its own in the package's.
	dir := filepath.Join(installed(t, pkg), "run")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	dir, err = os.MkdirTemp(dir, "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	copied := filepath.Join(dir, filepath.Base(script))
	require.NoError(t, os.WriteFile(copied, text, 0o600))
	out := command(t, dir, "node", append([]string{copied}, args...)...)
	require.Contains(t, out, "all checks held", script)
}

// installed returns a folder with the package, which is installed once per machine.
func installed(t *testing.T, pkg string) string {
	t.Helper()

	cache, err := os.UserCacheDir()
	require.NoError(t, err)

	dir := filepath.Join(cache, "rolloutd-test", "node-"+strings.NewReplacer("@", "", "/", "-").Replace(pkg))

	require.NoError(t, os.MkdirAll(dir, 0o700))
	defer locked(t, dir+".lock")()

	ready := filepath.Join(dir, "ready")
	if _, err := os.Stat(ready); err == nil {
		return dir
	}

	require.NoError(
		t,
		os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true, "type": "module"}`), 0o600),
	)
	command(t, dir, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--save-exact", pkg)
	require.NoError(t, os.WriteFile(ready, nil, 0o600))

	return dir
}

// Read returns a file of an installed package. Without node the test is skipped, except on CI.
func Read(t *testing.T, pkg, file string) string {
	t.Helper()
	needNode(t)

	name, _, _ := strings.Cut(pkg, "@")
	text, err := os.ReadFile(filepath.Join(installed(t, pkg), "node_modules", name, file))
	require.NoError(t, err)

	return string(text)
}

func needNode(t *testing.T) {
	t.Helper()

	if _, err := exec.LookPath("node"); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have node")
		t.Skip("node is not installed")
	}
}

// locked waits for the lock: another test process may be installing.
func locked(t *testing.T, path string) (unlock func()) {
	t.Helper()

	var lock *filelock.Lock

	require.Eventually(t, func() bool {
		var err error

		lock, err = filelock.Acquire(path)

		return err == nil
	}, 10*time.Minute, 100*time.Millisecond)

	return func() { require.NoError(t, lock.Release()) }
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir

	var out bytes.Buffer

	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoErrorf(t, cmd.Run(), "%s:\n%s", cmd, &out)

	return out.String()
}
