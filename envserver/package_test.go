package envserver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

const openEnvFolder = "../deploy/openenv"

// OpenEnv's tools accept the folder that describes the server.
func TestOpenEnvPackage(t *testing.T) {
	t.Parallel()
	pyclient.Interpreter(t, pyclient.Newest()).Run(t, filepath.Join("testdata", "py", "package_dir.py"), openEnvFolder)
}

// The image's start script listens on all addresses only if tokens are set or OPEN_PORT allows it.
func TestOpenEnvStart(t *testing.T) {
	t.Parallel()

	stubs := t.TempDir()
	for name, text := range map[string]string{
		"rolloutd":     `echo "rolloutd $* at $ROLLOUTD_LISTEN"`,
		"rolloutd-dev": `echo "rolloutd-dev $* at $ROLLOUTD_LISTEN"`,
		"socat":        `exit 0`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	}

	for _, c := range []struct {
		env  []string
		says string
		fail bool
	}{
		{nil, "set ROLLOUTD_TOKENS", true},
		{[]string{"OPEN_PORT=1"}, "rolloutd-dev --data /data at 127.0.0.1:8001", false},
		{[]string{"OPEN_PORT=1", "TEMPORAL_ADDRESS=x:1"}, "rolloutd serve at 127.0.0.1:8001", false},
		{[]string{"OPEN_PORT=1", "ROLLOUTD_TOKENS=0123456789abcdef"}, "rolloutd-dev --data /data at 0.0.0.0:8000", false},
		{[]string{"ROLLOUTD_TOKENS_FILE=x", "TEMPORAL_ADDRESS=x:1"}, "rolloutd serve at 0.0.0.0:8000", false},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(openEnvFolder, "start.sh"))

		cmd.Env = append(c.env, "PATH="+stubs+":"+os.Getenv("PATH"), "ROLLOUTD_DATA=/data")
		out, err := cmd.CombinedOutput()
		require.Equal(t, c.fail, err != nil, "%s", out)
		require.Contains(t, string(out), c.says)
	}
}
