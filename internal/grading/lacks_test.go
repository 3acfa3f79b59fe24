package grading

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestLackLines(t *testing.T) {
	t.Parallel()

	for line, want := range map[string]string{
		"curl: (6) Could not resolve host: example.org":                                                  "network",
		"E   urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>":     "network",
		"Error: getaddrinfo ENOTFOUND registry.example.org":                                              "network",
		"dial tcp: lookup proxy.example.org: no such host":                                               "network",
		"/verifier/tests/run.sh: line 3: python3: command not found":                                     "program",
		"sh: 1: node: not found":                                                                         "program",
		"E   FileNotFoundError: [Errno 2] No such file or directory: 'cargo'":                            "program",
		"Error: spawn java ENOENT":                                                                       "program",
		"/usr/bin/env: ‘python3’: No such file or directory":                                             "program",
		`run-as-agent: argv: no program "go" in PATH "/usr/bin:/bin"`:                                    "program",
		"playwright._impl._errors.Error: BrowserType.launch: Executable doesn't exist at /ms-playwright": "browser",
		"E   FileNotFoundError: [Errno 2] No such file or directory: '/app/out.txt'":                     "",
		"the answer was not found":                                                                       "",
		"AssertionError: 1 != 2":                                                                         "",
		strings.Repeat("x", 3000) + ": command not found":                                                "",
	} {
		found := lackLines([]byte("some line\n" + line + "\r\n" + line + "\nmore\n"))
		if want == "" {
			require.Empty(t, found, line)
			continue
		}

		require.Len(t, found, 1, "a line that is repeated is quoted once: %s", line)
		require.Contains(t, found[0], want)
	}

	require.Len(t, lackLines([]byte("a: command not found\nb: command not found\nc: command not found\nd: command not found\n")), maxLacks)

	long := lackLines([]byte(strings.Repeat("é", 500) + ": command not found\x00\x1b[31m: command not found"))
	require.Len(t, long, 1)
	require.Less(t, len(long[0]), 3*maxLackLine)
	require.NotContains(t, long[0], "\x1b")
}

// What the tests lack is noted where the work has not earned the full reward, and changes no grade.
func TestNoteLacks(t *testing.T) {
	t.Parallel()

	full, half := 1.0, 0.5
	commands := []rollout.CommandResult{{ExitCode: 127, Stderr: "bash: line 1: node: command not found"}, {Stderr: "a: command not found"}}

	for _, c := range []struct {
		reward *float64
		notes  int
	}{{&full, 0}, {&half, 2}, {nil, 2}} {
		for _, rewards := range [][]float64{nil, rollout.AnyReward()} {
			r := Record{Reward: c.reward, Commands: commands, lacks: []string{"the tests wrote x"}}
			r.noteLacks(rollout.Verifier{RewardRange: rewards})
			require.Len(t, r.Grading.Notes, c.notes)
			require.Equal(t, c.reward, r.Reward)
		}
	}
}
