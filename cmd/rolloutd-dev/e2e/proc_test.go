package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// proc reads a file in the process's folder of /proc.
func (p *process) proc(t testing.TB, file string) []byte {
	t.Helper()

	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file))
	require.NoError(t, err)

	return text
}

// hasInMemory reports whether the key is in the writable memory of the process.
func (p *process) hasInMemory(t testing.TB, key string) bool {
	t.Helper()

	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.cmd.Process.Pid))
	require.NoError(t, err)

	defer memory.Close()

	for line := range strings.Lines(string(p.proc(t, "maps"))) {
		var (
			from, to uint64
			may      string
		)

		_, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &may)
		require.NoError(t, err)

		if strings.HasPrefix(may, "rw") &&
			readerContains(t, io.NewSectionReader(memory, int64(from), int64(to-from)), key) {
			return true
		}
	}

	return false
}

// readerContains searches a piece of memory in blocks that overlap by more than the length of a key. A read
// error means that the memory was unmapped, so it does not hold the key any more.
func readerContains(t testing.TB, piece io.Reader, key string) bool {
	t.Helper()

	const overlap = 256

	buf := make([]byte, 1<<20)
	for kept := 0; ; {
		n, err := io.ReadFull(piece, buf[kept:])
		if containsKey(buf[:kept+n], key) {
			return true
		}

		if err != nil {
			return false
		}

		kept = copy(buf, buf[len(buf)-overlap:])
	}
}

// processesNaming returns the command lines of running processes that contain a text: a data folder or a
// rollout's id. The command line of the first process in each sandbox contains the rollout's id, and all
// other processes of the sandbox end with the first one.
func processesNaming(t testing.TB, name string) []string {
	t.Helper()

	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)

	var found []string

	for _, line := range lines {
		text, err := os.ReadFile(line)
		// an error means that the process has ended
		if err == nil && strings.Contains(string(text), name) {
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}

	return found
}

// sandboxProcesses returns the command lines and environments of the processes whose command line contains
// the sandbox's id, and of all their descendants.
func sandboxProcesses(t testing.TB, id string) []byte {
	t.Helper()

	command, parent := map[string][]byte{}, map[string]string{}
	folders, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)

	for _, f := range folders {
		stat, err := os.ReadFile(filepath.Join(f, "stat"))
		if err != nil {
			// the process has ended
			continue
		}

		command[f], _ = os.ReadFile(filepath.Join(f, "cmdline"))
		parent[f] = "/proc/" + strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[1]
	}

	var all []byte

	for f := range command {
		for p := f; p != ""; p = parent[p] {
			if bytes.Contains(command[p], []byte(id)) {
				environ, _ := os.ReadFile(filepath.Join(f, "environ"))
				all = append(append(all, command[f]...), environ...)

				break
			}
		}
	}

	return all
}
