package taskset_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// folder writes files into a new folder and returns its path.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()

	dir := t.TempDir()
	for name, text := range files {
		full := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o700))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
	}

	return dir
}

func open(t *testing.T, path string) *taskset.Set {
	t.Helper()

	s, err := taskset.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })

	return s
}

func names(s *taskset.Set) []string {
	var all []string
	for i := range s.Len() {
		all = append(all, s.Name(i))
	}

	return all
}

func TestFolderOfTaskFiles(t *testing.T) {
	t.Parallel()
	s := open(t, folder(t, map[string]string{
		"b.yaml":         "instruction: second\n",
		"a.yml":          "id: own\ninstruction: first\n",
		"easy/c.yaml":    "instruction: third\n",
		"README.md":      "not a task",
		".hidden/d.yaml": "instruction: x\n",
		"broken.yaml":    "instruction: x\nverfy: [a]\n",
	}))
	require.Equal(t, []string{"a", "b", "broken", "easy/c"}, names(s))
	first, err := s.Task(0)
	require.NoError(t, err)
	require.Equal(t, "own", first.ID)

	third, err := s.Task(3)
	require.NoError(t, err)
	require.Equal(t, "easy/c", third.ID, "a task without an id has its name")

	_, err = s.Task(2)
	require.ErrorContains(t, err, "broken.yaml: line 2: field verfy: no such field of a task")
	require.Equal(t, fault.Invalid, fault.KindOf(err))

	i, ok := s.Find("b")
	require.True(t, ok)
	require.Equal(t, 1, i)
}

// A folder in the form of Terminal-Bench 1 is one task, which is refused with what makes a Harbor task of it.
func TestTerminalBenchFolder(t *testing.T) {
	t.Parallel()

	s := open(t, folder(t, map[string]string{
		"a/task.yaml":           "instruction: x\nparser_name: pytest\n",
		"a/docker-compose.yaml": "services: {client: {build: .}}\n",
		"a/run-tests.sh":        "",
		"b.yaml":                "instruction: y\n",
	}))
	require.Equal(t, []string{"a", "b"}, names(s))

	_, err := s.Task(0)
	require.ErrorContains(t, err, "/a: is a task in the form of Terminal-Bench 1")
	require.True(t, fault.Is(err, fault.Invalid))
}

func TestLines(t *testing.T) {
	t.Parallel()
	dir := folder(
		t,
		map[string]string{"set.jsonl": `{"id":"one","instruction":"a","on_timeout":null,"limits":{"turns":5}}

{"instruction":"b \ud83d\ude00"}
{"id":"one","instruction":"c"}
{"id":"x","instruction":1}
{"id":"y","instruction":"d","verfy":[]}
not json
{"id":"z","instruction":" "}
{"id":"last","instruction":"e"}`},
	)
	s := open(t, filepath.Join(dir, "set.jsonl"))
	require.Equal(t, []string{"one", "line-3", "one", "x", "y", "line-7", "z", "last"}, names(s))
	one, err := s.Task(0)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"task_id":     "one",
		"instruction": "a",
		"on_timeout":  "null",
		"limits":      map[string]any{"turns": 5.0},
	}, one.Arguments())

	two, err := s.Task(1)
	require.NoError(t, err)
	require.Equal(t, "b 😀", two.Instruction)

	for i, want := range map[int]string{
		2: `set.jsonl:4: id: "one" is also the id of the task at`,
		3: "set.jsonl:5: instruction: must be a string, got number",
		4: "set.jsonl:6: field verfy: no such field of a task; did you mean verify?",
		5: "set.jsonl:7: task: invalid character",
		6: "set.jsonl:8: instruction: must not be empty",
	} {
		_, err := s.Task(i)
		require.ErrorContains(t, err, want)
	}

	_, err = s.Task(7)
	require.NoError(t, err, "a broken task does not hide the next")
}

func TestKindsOfFieldsInLines(t *testing.T) {
	t.Parallel()

	for line, want := range map[string]string{
		`["a"]`:                      "set.jsonl:1: task: must be an object, got array",
		`{"setup":"x"}`:              "setup: must be a list, got string",
		`{"sandbox":[]}`:             "sandbox: must be an object, got array",
		`{"require_sandbox":1}`:      "require_sandbox: must be true or false, got number",
		`{"top_logprobs":1.5}`:       "top_logprobs: must be a whole number, got number 1.5",
		`{"agent_timeout_s":"1"}`:    "agent_timeout_s: must be a number, got string",
		`{"on_timeout":["null"]}`:    `on_timeout: must be "null" or left out`,
		"{\"instruction\":\"\xff\"}": "set.jsonl:1: must be text in UTF-8",
		`{} {}`:                      "must be one JSON object, got more after it",
	} {
		_, err := open(t, filepath.Join(folder(t, map[string]string{"set.jsonl": line}), "set.jsonl")).Task(0)
		require.ErrorContains(t, err, want)
	}
}

func TestLinesMayBeginWithAByteOrderMark(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(folder(t, map[string]string{"set.jsonl": "\uFEFF{\"id\":\"one\",\"instruction\":\"a\"}\n"}), "set.jsonl"))
	require.Equal(t, []string{"one"}, names(s))
	_, err := s.Task(0)
	require.NoError(t, err)
}

func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"set.jsonl": fmt.Sprintf(
			"{\"instruction\":%q}\n{\"instruction\":\"x\",\"limits\":{\"a\":%s1%s}}\n{\"instruction\":\"y\"}\n",
			strings.Repeat("x", 17<<20),
			strings.Repeat("[", 100),
			strings.Repeat("]", 100),
		),
	})
	s := open(t, filepath.Join(dir, "set.jsonl"))
	require.Equal(t, 3, s.Len())
	_, err := s.Task(0)
	require.ErrorContains(t, err, "at most 16 MiB")
	_, err = s.Task(1)
	require.ErrorContains(t, err, "more than 32 levels")
	_, err = s.Task(2)
	require.NoError(t, err)
}

func TestOneFileIsASet(t *testing.T) {
	t.Parallel()
	s := open(t, "../../examples/fizzbuzz.yaml")
	require.Equal(t, []string{"fizzbuzz"}, names(s))
}

func TestNotASet(t *testing.T) {
	t.Parallel()

	dir := folder(t, map[string]string{"a.txt": "x", "empty/.keep": ""})
	for path, want := range map[string]string{
		filepath.Join(dir, "none"):  "no such file",
		filepath.Join(dir, "a.txt"): "must be a folder",
		filepath.Join(dir, "empty"): "has no tasks",
	} {
		_, err := taskset.Open(path)
		require.ErrorContains(t, err, want)
	}
}

// A task file that is a pipe or a link to a file outside is refused, not read.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"z.yaml": "instruction: x\n"})
	outside := filepath.Join(folder(t, map[string]string{"secret.yaml": "instruction: secret\n"}), "secret.yaml")
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link.yaml")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600))
	s := open(t, dir)
	require.Equal(t, []string{"link", "pipe", "z"}, names(s))
	_, err := s.Task(0)
	require.ErrorContains(t, err, "link.yaml: ")
	_, err = s.Task(1)
	require.ErrorContains(t, err, "must be a regular file")
}

func TestDigest(t *testing.T) {
	t.Parallel()
	s := open(t, folder(t, map[string]string{
		"a.yaml": "id: t\ninstruction: x\n",
		"b.yaml": "instruction: x\nid: t\n",
		"c.yaml": "instruction: y\nid: t\n",
	}))

	var all []string

	for i := range s.Len() {
		task, err := s.Task(i)
		require.NoError(t, err)
		digest, err := task.Digest()
		require.NoError(t, err)

		all = append(all, digest)
	}

	require.Equal(t, all[0], all[1])
	require.NotEqual(t, all[0], all[2])
}

func TestSelect(t *testing.T) {
	t.Parallel()

	files := map[string]string{}
	for i := range 10 {
		files[fmt.Sprintf("easy/t%d.yaml", i)] = "instruction: x\n"
		files[fmt.Sprintf("hard/t%d.yaml", i)] = "instruction: x\n"
	}

	s := open(t, folder(t, files))
	selected := func(sel taskset.Selection) []string {
		all, err := s.Select(sel)
		require.NoError(t, err)

		var out []string
		for _, i := range all {
			out = append(out, s.Name(i))
		}

		return out
	}
	require.Len(t, selected(taskset.Selection{}), 20)
	require.Equal(
		t,
		[]string{"easy/t3", "hard/t1", "hard/t2"},
		selected(taskset.Selection{Tasks: []string{"easy/t3", "hard/t[12]"}}),
	)
	require.Equal(t, []string{"easy/t0", "easy/t1"}, selected(taskset.Selection{Exclude: []string{"hard/*"}, Limit: 2}))

	seed := uint64(7)
	shuffled := selected(taskset.Selection{Shuffle: &seed})
	require.NotEqual(t, selected(taskset.Selection{}), shuffled)
	require.ElementsMatch(t, selected(taskset.Selection{}), shuffled)

	var parts []string

	for i := range 3 {
		part := selected(taskset.Selection{Shuffle: &seed, Shard: i, Shards: 3})
		require.Contains(t, []int{6, 7}, len(part))
		parts = append(parts, part...)
	}

	require.Equal(t, shuffled, parts, "shards share no task")

	for want, sel := range map[string]taskset.Selection{
		`no task of`: {Tasks: []string{"esy/*"}}, "not a name or a glob": {Tasks: []string{"["}}, "must be i/n": {
			Shard:  3,
			Shards: 3,
		},
		"is selected": {Exclude: []string{"*/*"}}, "limit": {Limit: -1},
	} {
		_, err := s.Select(sel)
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"id":"one","instruction":"a","on_timeout":null}`))
	f.Add([]byte(`{"instruction":"a","on_timeout":"null","limits":{"turns":5},"reward_range":[0,1]}` + "\n\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "x.jsonl")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		readAll(t, path)
	})
}

// readAll opens a set and reads its tasks. Neither may panic, and every task that is read must be complete.
func readAll(t *testing.T, path string) {
	t.Helper()

	s, err := taskset.Open(path)
	if err != nil {
		return
	}
	defer s.Close()

	for i := range s.Len() {
		task, err := s.Task(i)
		if err != nil {
			continue
		}

		require.NotEmpty(t, task.Arguments()["instruction"])
		_, _ = task.Digest()
	}
}
