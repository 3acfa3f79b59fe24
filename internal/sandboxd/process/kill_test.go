package process_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
)

func TestTreeOfProcesses(t *testing.T) {
	t.Parallel()

	e := process.MakeEntry
	self := os.Getpid()
	// no pid is that high
	const root = 2_000_000_000

	all := []process.Entry{
		e(self, 0, self, false),
		e(root, self, root, false),
		e(root+5, root+4, root+4, false), // listed before its parent
		e(root+1, root, root, false),
		e(root+2, self, root, false),     // an orphan in the session
		e(root+3, root+1, root+3, false), // its own session, and its parent still exists
		e(root+4, root+3, root+4, false),
		e(root+6, root, root, true), // dead, not yet reaped
		e(root+7, self, root+7, false),
	}
	for name, c := range map[string]struct {
		root  int
		alive bool
		want  []int
	}{
		"all of it":            {root, true, []int{root, root + 1, root + 2, root + 3, root + 4, root + 5}},
		"its number reused":    {root, false, nil},
		"another process":      {root + 7, true, []int{root + 7}},
		"gone without a trace": {root + 8, false, nil},
		"everything of ours":   {self, true, []int{root, root + 1, root + 2, root + 3, root + 4, root + 5, root + 7}},
	} {
		got := process.Tree(all, c.root, c.alive)
		slices.Sort(got)
		require.Equal(t, c.want, got, name)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (bash) S 1 7 7 0 -1 4194560"))
	f.Add([]byte("7 (a) b) (c) Z 12 7 9"))
	f.Add([]byte("7 (x"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		if _, err := process.ParseStat(7, stat); err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}

// A process may have any name.
func TestParseStat(t *testing.T) {
	t.Parallel()

	got, err := process.ParseStat(7, []byte("7 (a) S 1 2 3 (\n) Z 12 8 9 0"))
	require.NoError(t, err)
	require.Equal(t, process.MakeEntry(7, 12, 9, true), got)
}
