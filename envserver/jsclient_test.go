package envserver_test

import (
	"path/filepath"
	"testing"

	"github.com/rolloutd/rolloutd/internal/testkit/jsclient"
)

// TestTypeScriptClient runs the published TypeScript clients of the Model Context Protocol, versions 1 and 2.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()

	for pkg, script := range map[string]string{jsclient.MCP: "mcp_client.mjs", jsclient.MCP2: "mcp2_client.mjs"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			jsclient.Run(t, pkg, filepath.Join("testdata", script), start(t).url)
		})
	}
}
