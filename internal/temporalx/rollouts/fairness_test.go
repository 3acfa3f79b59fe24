package rollouts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysDiffer(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("ü", 60)
	seen := map[string]bool{}

	for _, share := range [][2]string{{"", ""}, {"ada", ""}, {"", "ada"}, {"ada", "math"}, {"ada", "code"}, {long, ""}, {long, "math"}, {"", long}} {
		key := priorityOf(share[0], share[1]).FairnessKey
		require.False(t, seen[key], key)
		require.LessOrEqual(t, len(key), 64)
		seen[key] = true
	}
}
