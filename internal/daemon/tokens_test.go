package daemon_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// sumOfA is the SHA-256 sum of "a".
const sumOfA = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"

func TestTokensFile(t *testing.T) {
	t.Parallel()

	got, err := daemon.ReadTokens(
		strings.NewReader(
			"- {name: trainer, sha256: " + sumOfA + ", scope: client, max: {cpu: 2, memory_mib: 4096}}\n",
		),
	)
	require.NoError(t, err)

	found, ok := envserver.FindToken(got, "a")
	require.True(t, ok)
	require.Equal(t, "trainer", found.Name)
	require.Equal(t, envserver.ScopeClient, found.Scope)
	require.Equal(t, rollout.Resources{CPU: 2, MemoryMiB: 4096}, found.MaxSandbox)

	for _, wrong := range []string{"", "b", sumOfA} {
		_, ok := envserver.FindToken(got, wrong)
		require.False(t, ok, wrong)
	}
}

func TestTokensFileRefusals(t *testing.T) {
	t.Parallel()

	for text, says := range map[string]string{
		"":   "at least one token",
		"[]": "at least one token",
		"- {name: x, sha256: abc, scope: client}":                                                                "[0].sha256",
		"- {sha256: " + sumOfA + ", scope: client}":                                                              "[0].name",
		"- {name: " + strings.Repeat("x", 101) + ", sha256: " + sumOfA + ", scope: client}":                      "at most 100 bytes",
		"- {name: x, sha256: " + sumOfA + ", scope: client, max: {memory_mib: -1}}":                              "[0].max",
		"- {name: x, sha256: " + sumOfA + ", scope: root}":                                                       "[0].scope",
		"- {name: x, sha256: " + sumOfA + ", scope: client, to: 1}":                                              "to",
		"- {name: x, sha256: " + sumOfA + ", scope: client}\n- {name: x, sha256: " + sumOfA + ", scope: client}": "[1].name",
	} {
		_, err := daemon.ReadTokens(strings.NewReader(text))
		require.ErrorContains(t, err, says, text)
	}
}
