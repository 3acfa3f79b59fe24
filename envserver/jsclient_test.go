package envserver_test

import (
	"path/filepath"
	"testing"

	"github.com/rolloutd/rolloutd/internal/jsclient"
)

// TestTypeScriptClient runs the published TypeScript client of the Model Context Protocol.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	jsclient.Run(t, jsclient.MCP, filepath.Join("testdata", "mcp_client.mjs"), start(t).url)
}
