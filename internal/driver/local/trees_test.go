package local_test

import (
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// redteamEnv selects the attacks at full size. See make redteam.
const redteamEnv = "ROLLOUTD_REDTEAM"

// 100,000 hard links to one file are stored as links. A tar of a million empty files is refused before its
// first byte. Both trees can be removed.
func TestTreesOfManyFiles(t *testing.T) {
	t.Parallel()
	needRoot(t)

	links, files := 10_000, 300_000
	if os.Getenv(redteamEnv) != "" {
		links, files = 100_000, 1_000_000
	}

	p := place(t, driver.Spec{HomeMiB: 1024, MemoryMiB: 4096})
	ran := p.Bash(python("os.mkdir('links'); open('links/0', 'wb').write(bytes(8192))",
		"for i in range(1, "+strconv.Itoa(links)+"): os.link('links/0', 'links/%d' % i)"))
	require.Zero(t, ran.ExitCode, ran.Stderr)
	content, err := p.GetTar(t.Context(), "/home/user/links")
	require.NoError(t, err)
	size, err := io.Copy(io.Discard, content)
	require.NoError(t, err)
	require.NoError(t, content.Close())
	require.Less(t, size, int64(links)*1600, "a name takes three blocks of 512 bytes")
	require.NoError(t, p.Remove(t.Context(), "/home/user/links"))

	ran = p.Bash(python("os.mkdir('files')", "for i in range("+strconv.Itoa(files)+"): os.mknod('files/%d' % i)"))
	require.Zero(t, ran.ExitCode, ran.Stderr)
	_, err = p.GetTar(t.Context(), "/home/user/files")
	require.Equal(t, fault.OutOfDisk, fault.KindOf(err), "%v", err)
	require.NoError(t, p.Remove(t.Context(), "/home/user/files"))
	require.Equal(t, "ok\n", p.Bash("echo ok").Stdout)
}

// python returns a shell command that runs the lines.
func python(lines ...string) string {
	script := "import os\n"
	for _, l := range lines {
		script += l + "\n"
	}

	return `python3 -c "` + script + `"`
}
