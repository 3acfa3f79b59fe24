package opencode_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/internal/scripted"
)

// task has the fields of a file in examples/ that these tests use.
type task struct {
	Instruction string            `yaml:"instruction"`
	Files       map[string]string `yaml:"files"`
	TestFiles   map[string]string `yaml:"test_files"`
	Verify      []string          `yaml:"verify"`
}

func newTask(t *testing.T, id string) task {
	t.Helper()

	text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", id+".yaml"))
	require.NoError(t, err)

	var tk task
	require.NoError(t, yaml.Unmarshal(text, &tk))

	return tk
}

// toolNames returns a request and the names of the tools that it offers.
func toolNames(t *testing.T, s scripted.Sent) (request map[string]any, names []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal(s.Request, &request))

	for _, tool := range request["tools"].([]any) {
		names = append(names, tool.(map[string]any)["function"].(map[string]any)["name"].(string))
	}

	return request, names
}
