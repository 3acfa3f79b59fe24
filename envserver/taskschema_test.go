package envserver_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/internal/taskset"
)

// taskSchemaFile is the JSON schema of task files, with which editors check them.
const taskSchemaFile = "../docs/reference/task.schema.json"

// argumentOf are the arguments of run_rollout whose names differ from those of a task file's fields.
var argumentOf = map[string]string{"id": "task_id", "files": "upload_files"}

// schemaOfTasks is made of the arguments of run_rollout that a task file can have.
func schemaOfTasks(t *testing.T, server *rig) string {
	t.Helper()

	run := toolsOf[*jsonschema.Schema](t, server)[0]
	require.Equal(t, "run_rollout", run.Name)

	arguments := run.InputSchema.Properties

	s := fieldsOf(t, reflect.TypeFor[taskset.Task](), arguments)
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "A task of rolloutd"
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"instruction"}}, {Required: []string{"steps"}}}
	s.Properties["steps"].Items = fieldsOf(t, reflect.TypeFor[taskset.Step](), arguments["steps"].Items.Properties)
	s.Properties["steps"].Items.Required = []string{"name", "instruction"}

	// the configuration of a server decides which there are
	s.Properties["agent"].Enum = nil
	// what `on_timeout: null` is in YAML
	s.Properties["on_timeout"].Enum = append(s.Properties["on_timeout"].Enum, nil)
	s.Properties["on_timeout"].Type, s.Properties["on_timeout"].Types = "", nil

	text, err := json.MarshalIndent(s, "", "  ")
	require.NoError(t, err)

	return string(text) + "\n"
}

// fieldsOf is the schema of a struct of a task file, whose fields are described by the arguments.
func fieldsOf(t *testing.T, fields reflect.Type, arguments map[string]*jsonschema.Schema) *jsonschema.Schema {
	t.Helper()

	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}

	for n := range fields.NumField() {
		name := fields.Field(n).Tag.Get("yaml")
		argument := arguments[name]

		if other, ok := argumentOf[name]; ok {
			argument = arguments[other]
		}

		switch {
		case name == "-":
			continue
		case strings.HasPrefix(name, "require_"):
			argument = &jsonschema.Schema{Type: "boolean", Description: "accepted and without effect: each rollout has a sandbox"}
		case name == "uploads":
			argument = argument.CloneSchemas()
			argument.Description = "path in the sandbox → a file beside the task file, or the SHA-256 of an upload"
		}

		require.NotNil(t, argument, "%s is an argument of run_rollout", name)
		s.Properties[name] = argument
	}

	return s
}

// The examples have the schema; a task file with a fault has not.
func TestSchemaOfTasks(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile(taskSchemaFile)
	require.NoError(t, err)

	var s jsonschema.Schema
	require.NoError(t, json.Unmarshal(text, &s))

	schema, err := s.Resolve(nil)
	require.NoError(t, err)

	check := func(text string) error {
		var task any
		require.NoError(t, yaml.Unmarshal([]byte(text), &task))

		return schema.Validate(task)
	}

	var examples []string

	for _, pattern := range []string{"../examples/*.yaml", "../examples/small/*.yaml"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)

		examples = append(examples, found...)
	}

	require.Greater(t, len(examples), 3)

	for _, file := range examples {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, check(string(text)), file)
	}

	require.NoError(t, check("steps: [{name: a, instruction: b, verify: [x], min_reward: {reward: 1}}]\non_timeout: null"))

	for _, c := range []struct{ text, names string }{
		{"instruction: x\nverfy: [x]", "verfy"},
		{"verify: [x]", "instruction"},
		{"instruction: x\nverify: x", "verify"},
		{"instruction: x\nlimits: {turn: 3}", "turn"},
		{"instruction: x\nsteps: [{name: a, instructions: b}]", "instruction"},
		{"instruction: x\non_timeout: zero", "on_timeout"},
	} {
		require.ErrorContains(t, check(c.text), c.names, c.text)
	}
}
