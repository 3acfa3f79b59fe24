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

// proc reads a file of /proc about the process.
func (p *process) proc(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file))
	require.NoError(t, err)
	return text
}

// remembers says whether the key is in the process's memory, wherever the process can write.
func (p *process) remembers(t testing.TB, key string) bool {
	t.Helper()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.cmd.Process.Pid))
	require.NoError(t, err)
	defer memory.Close()
	for line := range strings.Lines(string(p.proc(t, "maps"))) {
		var from, to uint64
		var may string
		_, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &may)
		require.NoError(t, err)
		if strings.HasPrefix(may, "rw") && pieceHolds(t, io.NewSectionReader(memory, int64(from), int64(to-from)), key) {
			return true
		}
	}
	return false
}

// pieceHolds reads a piece of memory bit by bit, with an overlap that no key is longer than. What was unmapped meanwhile cannot be
// read, and is gone.
func pieceHolds(t testing.TB, piece io.Reader, key string) bool {
	t.Helper()
	const overlap = 256
	buf := make([]byte, 1<<20)
	for kept := 0; ; {
		n, err := io.ReadFull(piece, buf[kept:])
		if holds(buf[:kept+n], key) {
			return true
		}
		if err != nil {
			return false
		}
		kept = copy(buf, buf[len(buf)-overlap:])
	}
}

// processesNaming lists the running processes whose command line has the text: a data folder, or a rollout's id, which the first
// process of each of its sandboxes names, and with which all others of the sandbox end.
func processesNaming(t testing.TB, name string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err == nil && strings.Contains(string(text), name) { // gone meanwhile: not running
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}

// sandboxProcesses is what the kernel tells of the processes that name the sandbox, and of all below them: command lines and
// environments.
func sandboxProcesses(t testing.TB, id string) []byte {
	t.Helper()
	command, parent := map[string][]byte{}, map[string]string{}
	folders, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, f := range folders {
		stat, err := os.ReadFile(filepath.Join(f, "stat"))
		if err != nil {
			continue // gone meanwhile
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
