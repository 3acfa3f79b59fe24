package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A log file and the one before it together have the latest lines, and stay within twice the bound, over restarts too.
func TestLogFileIsBounded(t *testing.T) {
	t.Parallel()

	const most = 1000

	path := filepath.Join(t.TempDir(), "x.log")

	for start := range 3 {
		l, err := openLogFile(path, most)
		require.NoError(t, err)

		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for n := range 50 {
					if _, err := fmt.Fprintf(l, "start %d writer %d line %d\n", start, w, n); err != nil {
						t.Error(err)
					}
				}
			})
		}

		writers.Wait()

		_, err = fmt.Fprintf(l, "start %d ends\n", start)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}

	now, err := os.ReadFile(path)
	require.NoError(t, err)
	before, err := os.ReadFile(path + ".1")
	require.NoError(t, err)

	require.LessOrEqual(t, len(now), most)
	require.LessOrEqual(t, len(before), most)
	require.True(t, bytes.HasSuffix(now, []byte("start 2 ends\n")))

	for line := range strings.Lines(string(before) + string(now)) {
		require.Regexp(t, `^start 2 (writer \d line \d+|ends)\n$`, line)
	}
}

// A line longer than the bound is written whole, and a file that cannot be replaced is continued.
func TestLogFileKeepsLines(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "x.log")
	require.NoError(t, os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700))

	l, err := openLogFile(path, 10)
	require.NoError(t, err)

	for _, line := range []string{"a line that is too long\n", "second\n", "third\n"} {
		_, err := l.Write([]byte(line))
		require.NoError(t, err)
	}

	require.NoError(t, l.Close())

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "a line that is too long\nsecond\nthird\n", string(text))
}
