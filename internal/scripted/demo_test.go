package scripted_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// task has the fields of a task file that these tests read.
type task struct {
	Instruction string            `yaml:"instruction"`
	Files       map[string]string `yaml:"files"`
	Setup       []string          `yaml:"setup"`
	Solution    []string          `yaml:"solution"`
	Verify      []string          `yaml:"verify"`
	TestFiles   map[string]string `yaml:"test_files"`
	TestScript  string            `yaml:"test_script"`
}

// bench is a home folder on this machine in which a task is done without a sandbox.
type bench struct {
	task
	home string
}

func newBench(t *testing.T, id string) *bench {
	t.Helper()

	text, err := os.ReadFile(filepath.Join("..", "..", "examples", id+".yaml"))
	require.NoError(t, err)
	b := &bench{home: t.TempDir()}
	require.NoError(t, yaml.Unmarshal(text, &b.task))
	require.NoError(t, os.MkdirAll(b.dir(), 0o755))
	require.NoError(t, os.MkdirAll(b.logs(), 0o755))

	for path, text := range b.Files {
		require.NoError(t, os.WriteFile(filepath.Join(b.dir(), path), []byte(text), 0o644))
	}

	for path, text := range b.TestFiles {
		put(t, filepath.Join(b.tests(), path), b.local(text), 0o644)
	}
	// In a sandbox run-as-agent changes the user. Here there is only one user.
	put(t, filepath.Join(b.programs(), "run-as-agent"), "#!/bin/sh\nexec \"$@\"\n", 0o755)

	for _, command := range b.Setup {
		out, status := b.bash(t, command)
		require.Zero(t, status, out)
	}

	return b
}

// demoTasks returns the ids of the tasks in examples/ and in its task sets.
func demoTasks(t *testing.T) (ids []string) {
	t.Helper()

	root := os.DirFS(filepath.Join("..", "..", "examples"))
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		paths, err := fs.Glob(root, pattern)
		require.NoError(t, err)

		for _, path := range paths {
			ids = append(ids, strings.TrimSuffix(path, ".yaml"))
		}
	}

	require.NotEmpty(t, ids)

	return ids
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
}

func (b *bench) dir() string      { return filepath.Join(b.home, "workdir") }
func (b *bench) tests() string    { return filepath.Join(b.home, "verifier", "tests") }
func (b *bench) logs() string     { return filepath.Join(b.home, "verifier", "logs") }
func (b *bench) programs() string { return filepath.Join(b.home, "verifier", "bin") }

// local replaces the home of the sandbox with the home of the bench.
func (b *bench) local(text string) string { return strings.ReplaceAll(text, rollout.Home, b.home) }

func (b *bench) bash(t *testing.T, command string) (output string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-c", b.local(command))
	cmd.Dir = b.dir()
	cmd.Env = []string{"HOME=" + b.home, "PATH=" + b.programs() + ":/usr/local/bin:/usr/bin:/bin",
		"PYTHONDONTWRITEBYTECODE=1", "TESTS_DIR=" + b.tests(), "VERIFIER_DIR=" + b.logs()}

	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}

	return string(out), cmd.ProcessState.ExitCode()
}

// solve runs the scripted model on the task, executes its tool calls on this machine, and returns its answer.
func (b *bench) solve(t *testing.T, s *server) string {
	t.Helper()

	messages := []object{user(b.Instruction)}
	for range 20 {
		choice, _ := s.ask(t, messages...)
		message := choice["message"].(object)

		calls, _ := message["tool_calls"].([]any)
		if len(calls) == 0 {
			return message["content"].(string)
		}

		messages = append(messages, message)
		for _, c := range calls {
			messages = append(messages, object{
				"role":         "tool",
				"tool_call_id": c.(object)["id"],
				"content":      b.use(t, c.(object)),
			})
		}
	}

	require.Fail(t, "no end after 20 turns")

	return ""
}

// toolCall matches a call as the scripted model writes it for agents that list their tools in the system prompt.
var toolCall = regexp.MustCompile(`(?s)<tool_call>\n(.*?)\n</tool_call>`)

// solveHermes is solve for such an agent: tool calls and their results are texts.
func (b *bench) solveHermes(t *testing.T, s *server) string {
	t.Helper()

	messages := []object{{"role": "system", "content": "<tools>[]</tools>"}, user(b.Instruction)}
	for range 20 {
		choice, _ := s.ask(t, messages...)
		content := choice["message"].(object)["content"].(string)

		calls := toolCall.FindAllStringSubmatch(content, -1)
		if len(calls) == 0 {
			return content
		}

		messages = append(messages, choice["message"].(object))
		for _, c := range calls {
			messages = append(messages, user("<tool_response>"+b.useHermes(t, c[1])+"</tool_response>"))
		}
	}

	require.Fail(t, "no end after 20 turns")

	return ""
}

func (b *bench) useHermes(t *testing.T, text string) string {
	t.Helper()

	var call struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &call))

	switch call.Name {
	case "terminal":
		out, _ := b.bash(t, call.Arguments["command"])
		return out
	case "write_file":
		require.NoError(
			t,
			os.WriteFile(filepath.Join(b.dir(), call.Arguments["path"]), []byte(call.Arguments["content"]), 0o644),
		)
	default:
		require.Fail(t, "unknown tool", call.Name)
	}

	return "done"
}

func (b *bench) use(t *testing.T, call object) string {
	t.Helper()

	f := call["function"].(object)

	var args map[string]string
	require.NoError(t, json.Unmarshal([]byte(f["arguments"].(string)), &args))
	path := b.local(args["filePath"])

	switch f["name"] {
	case "bash":
		require.NotEmpty(t, args["description"])
		out, _ := b.bash(t, args["command"])

		return out
	case "write":
		require.NoError(t, os.WriteFile(path, []byte(args["content"]), 0o644))
	case "edit":
		old, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(old), args["oldString"]))
		require.NoError(
			t,
			os.WriteFile(path, []byte(strings.Replace(string(old), args["oldString"], args["newString"], 1)), 0o644),
		)
	case "read":
		require.FileExists(t, path)
	default:
		require.Fail(t, "unknown tool", f["name"])
	}

	return "done"
}

// grade returns the reward of the task's verifier.
func (b *bench) grade(t *testing.T) float64 {
	t.Helper()

	if b.TestScript != "" {
		out, status := b.bash(t, b.TestScript)
		require.Zero(t, status, out)

		text, err := os.ReadFile(filepath.Join(b.logs(), "reward.txt"))
		require.NoError(t, err)
		reward, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		require.NoError(t, err)

		return reward
	}

	passed := 0

	for _, command := range b.Verify {
		if out, status := b.bash(t, command); status == 0 {
			passed++
		} else {
			t.Log(out)
		}
	}

	return float64(passed) / float64(len(b.Verify))
}

// The solution of a demo task gets the full reward.
func TestSolutionsOfDemoTasks(t *testing.T) {
	t.Parallel()

	for _, id := range demoTasks(t) {
		b := newBench(t, id)
		require.NotEmpty(t, b.Solution)

		for _, command := range b.Solution {
			out, status := b.bash(t, command)
			require.Zero(t, status, out)
		}

		require.InDelta(t, 1.0, b.grade(t), 0, id)
	}
}

// The scripted model solves each demo task for OpenCode and for the agent react. In the task with a
// deliberate mistake, the mistake appears first.
func TestDemoTasksAreSolved(t *testing.T) {
	t.Parallel()

	solvers := map[string]func(*bench, *testing.T, *server) string{
		"opencode": (*bench).solve,
		"react":    (*bench).solveHermes,
	}
	for agent, solve := range solvers {
		for _, id := range demoTasks(t) {
			t.Run(agent+"/"+id, func(t *testing.T) {
				t.Parallel()
				s, b := serve(t, ""), newBench(t, id)
				require.NotEmpty(t, solve(b, t, s))
				require.Equal(t, 1.0, b.grade(t))

				if id == "binary_search" {
					require.Contains(t, string(s.log.sent(t)[3].Request), "IndexError")
				}
			})
		}
	}
}

// The verifiers reject an empty workspace and each usual mistake, and accept a correct answer.
func TestVerifiersFailWrongSolutions(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		id, name, path, text string
		reward               float64
	}{
		{id: "binary_search", name: "nothing done"},
		{id: "fizzbuzz", name: "nothing done"},
		{id: "csv_stats", name: "nothing done"},
		{"binary_search", "any index", "binary_search.py",
			"def binary_search(a, x):\n lo, hi = 0, len(a) - 1\n while lo <= hi:\n  m = (lo + hi) // 2\n  if a[m] == x: return m\n" +
				"  if a[m] < x: lo = m + 1\n  else: hi = m - 1\n return -1\n", 2.0 / 3},
		{"binary_search", "linear", "binary_search.py",
			"def binary_search(a, x):\n for i in range(len(a)):\n  if a[i] == x: return i\n return -1\n", 2.0 / 3},
		{"binary_search", "bisect", "binary_search.py",
			"from bisect import bisect_left\ndef binary_search(a, x):\n i = bisect_left(a, x)\n return i if i < len(a) and a[i] == x else -1\n", 2.0 / 3},
		{"fizzbuzz", "no refusal", "fizzbuzz.sh",
			"for i in $(seq 1 ${1:-20}); do l=; ((i%3)) || l=Fizz; ((i%5)) || l+=Buzz; echo ${l:-$i}; done\n", 2.0 / 3},
		{"csv_stats", "answer without a script", "stats.json",
			`{"north":{"units":14,"revenue":133.25},"south":{"units":10,"revenue":97},"east":{"units":5,"revenue":16},"west":{"units":20,"revenue":21.4}}`, 0.5},
		{"csv_stats", "bad rows counted", "stats.json", `{"north":{"units":14,"revenue":133.25},"east":{"units":12,"revenue":16}}`, 0},
	} {
		t.Run(c.id+"/"+c.name, func(t *testing.T) {
			t.Parallel()

			b := newBench(t, c.id)
			if c.path != "" {
				require.NoError(t, os.WriteFile(filepath.Join(b.dir(), c.path), []byte(c.text), 0o644))
			}

			require.InDelta(t, c.reward, b.grade(t), 1e-9)
		})
	}
}
