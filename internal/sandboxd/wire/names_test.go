package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

func TestName(t *testing.T) {
	t.Parallel()

	for _, ok := range []string{"a", "Z9", "0._-", strings.Repeat("a", 64)} {
		require.True(t, wire.Name(ok, 64), ok)
	}

	for _, bad := range []string{"", ".", "..", "-a", "_a", "a/b", "a b", "a\n", "é", "a\x00", strings.Repeat("a", 65)} {
		require.False(t, wire.Name(bad, 64), bad)
	}
}

// A path at or below the usual name of the workdir is where the workdir is.
func TestWorkdir(t *testing.T) {
	t.Parallel()

	for path, want := range map[string]string{
		wire.AgentWorkdir: "/home/user/app", wire.AgentWorkdir + "/x": "/home/user/app/x",
		wire.AgentWorkdir + "s": wire.AgentWorkdir + "s", "/home/user": "/home/user", "": "",
	} {
		require.Equal(t, want, wire.Workdir("/home/user/app").Locate(path), path)
		require.Equal(t, path, wire.Workdir("").Locate(path), "it has its usual name")
	}
}
