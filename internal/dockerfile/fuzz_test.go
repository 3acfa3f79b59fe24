package dockerfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/dockerfile"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// No Dockerfile makes the reader panic, and each one that is refused is the fault of its author.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{
		"", "FROM", "FROM a\nRUN <<E\nx\nE\n", "# escape=`\nFROM a AS b\nCOPY --from=b . .", "FROM a\nRUN --mount=type=bind x",
		"FROM a\nADD <<E /x\nE", "FROM a\nHEALTHCHECK --interval=1s CMD x", "FROM a\nENV a=${b:-c} d\nLABEL x", "\ufeffFROM a",
		"FROM a\nRUN --mount=type=cache,target=/x,mode=9 x", "FROM a\nRUN [\"a\", \"b\"", "ARG A\nFROM ${A}",
	} {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "Dockerfile"), data, 0o600))

		if err := dockerfile.Check(dir, "Dockerfile"); err != nil {
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		}
	})
}
