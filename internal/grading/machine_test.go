package grading_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/e2b"
	"github.com/rolloutd/rolloutd/internal/driver/e2b/e2btest"
)

// machines creates sandboxes in machines of a service with E2B's API. They have this machine's programs and its Python.
func machines(t *testing.T) driver.Driver {
	t.Helper()
	service := e2btest.ForTest(t)
	require.NoError(
		t,
		errors.Join(service.Programs("cmp", "diff", "git", "nice", "pkill", "printf", "timeout"), service.Python()),
	)

	at, err := e2b.ProgramPath(sandboxdPath)
	require.NoError(t, err)
	require.NoError(t, service.AddProgram(at, sandboxdPath))

	d, err := e2b.New(e2b.Options{
		Dir:          t.TempDir(),
		SandboxdPath: sandboxdPath,
		Key:          service.Key,
		Template:     e2btest.Template,
		APIURL:       service.URL,
		SandboxURL:   service.URL,
		CreateRate:   1000,
	})
	require.NoError(t, err)

	return d
}
