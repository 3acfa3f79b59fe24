package pyclient

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Scripts of one process have their own arguments, output and exit code, and do not see each other's changes.
func TestPreloaded(t *testing.T) {
	t.Parallel()

	host, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}

	python := Python{path: host}.Preloaded(t, "json", "asyncio")
	script := filepath.Join(t.TempDir(), "script.py")
	require.NoError(t, os.WriteFile(script, []byte(`
import json, sys
assert not hasattr(json, "touched")
json.touched = True
print(sys.argv[1], __name__)
sys.exit({"fails": 3, "says": "no"}.get(sys.argv[1]))
`), 0o600))

	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			out, err := python.output(t, []string{script, fmt.Sprint(i)})
			assert.NoError(t, err, out)
			assert.Equal(t, fmt.Sprint(i, " __main__\n"), out)
		})
	}

	all.Wait()

	out, err := python.output(t, []string{script, "fails"})
	require.ErrorContains(t, err, "exit status 3")
	require.Equal(t, "fails __main__\n", out)
	out, err = python.output(t, []string{script, "says"})
	require.ErrorContains(t, err, "exit status 1")
	require.Contains(t, out, "no\n")
	_, err = Python{path: host}.Preloaded(t, "no_such_module").output(t, []string{script, "x"})
	require.ErrorContains(t, err, "No module named 'no_such_module'")
}
