package taskset_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/taskset"
)

func TestExamplesAreTasks(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)

	for _, file := range files {
		task, err := taskset.OpenFile(file)
		require.NoError(t, err)
		require.True(t, len(task.Verify) > 0 || task.TestScript != "", "%s has no verifier", file)
	}
}

func TestOpenNamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "task.yaml")
	_, err := taskset.OpenFile(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("id: x"), 0o600))
	_, err = taskset.OpenFile(path)
	require.ErrorContains(t, err, path+": instruction")
}

func TestArgumentsHaveTheFieldsOfTheFile(t *testing.T) {
	t.Parallel()

	task, err := taskset.ReadYAML(strings.NewReader(`
id: t1
instruction: do it
files: {a.txt: "hello\n"}
setup: [mkdir x]
verify: [test -d x, "true"]
test_files: {check.py: "pass\n"}
reward_range: [-1, 1]
on_timeout: null
agent_timeout_s: 30
max_tokens_cap: 0
limits: {turns: 5}
price: {prompt: 0.15, completion: 0.6}
purpose: eval
eval_sampling: {temperature: 0, stop: [END]}
`))
	require.NoError(t, err)
	got, err := json.Marshal(task.Arguments())
	require.NoError(t, err)
	require.JSONEq(t, `{"task_id":"t1","instruction":"do it","upload_files":{"a.txt":"hello\n"},"setup":["mkdir x"],
		"verify":["test -d x","true"],"test_files":{"check.py":"pass\n"},"reward_range":[-1,1],"on_timeout":"null","agent_timeout_s":30,"max_tokens_cap":0,"limits":{"turns":5},"price":{"prompt":0.15,"completion":0.6},
		"purpose":"eval","eval_sampling":{"temperature":0,"stop":["END"]}}`, string(got))

	task, err = taskset.ReadYAML(strings.NewReader("instruction: x"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"instruction": "x"}, task.Arguments())
}

func TestErrorsNameTheLine(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"":                             "empty",
		"instruction: x\nverfy: [a]\n": "line 2: field verfy: no such field of a task; did you mean verify?",
		"instruction: x\nverfy: [a]\ncolour: red\n":  "line 2: field verfy: no such field of a task; did you mean verify?; line 3: field colour: no such field of a task",
		"instruction: [x]\n":                         "line 1: must be a string, got a list",
		"instruction: x\nverify: echo\n":             "line 2: must be a list of strings, got `echo`",
		"instruction: x\nlimits: 5\n":                "line 2: must be a mapping, got `5`",
		"plain text\n":                               "line 1: must be a mapping with fields such as instruction and verify, got `plain text`",
		"id: a\ninstruction: ' '\n":                  "line 2: instruction",
		"id: a\n":                                    "instruction: must not be empty",
		"instruction: x\nagent_timeout_s: -1":        "line 2: agent_timeout_s",
		"instruction: x\nsetup: [a, '']\n":           "line 2: setup: command 2 is empty",
		"instruction: x\non_timeout: {a: 1}\n":       `line 2: on_timeout: must be "null" or left out`,
		"instruction: x\n\tid: b\n":                  "line 2",
		"instruction: x\n---\ninstruction: y":        "second document",
		"instruction: " + strings.Repeat("x", 2<<20): "at most 2 MiB",
	} {
		_, err := taskset.ReadYAML(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%.60q", text)
	}
}

func FuzzYAML(f *testing.F) {
	f.Add("instruction: x\nverify: [a]\n")
	f.Add("a: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		task, err := taskset.ReadYAML(strings.NewReader(text))
		if err != nil {
			return
		}

		require.NotEmpty(t, task.Arguments()["instruction"])
		// YAML maps may have keys that JSON does not support; the client reports that
		if task.Limits == nil && task.Sandbox == nil {
			_, err = json.Marshal(task.Arguments())
			require.NoError(t, err)
		}
	})
}
