package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
)

func TestTaskSets(t *testing.T) {
	t.Parallel()

	c, err := config.Load(strings.NewReader("task_sets: {math: {path: /data/math.jsonl}}"), nil)
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, map[string]config.TaskSet{"math": {Path: "/data/math.jsonl"}}, c.TaskSets)

	c.TaskSets = map[string]config.TaskSet{"a/b": {Path: "x"}, "c": {}}
	err = c.Validate()
	require.ErrorContains(t, err, "task_sets.a/b: the name must be")
	require.ErrorContains(t, err, "task_sets.c.path: must be the path of a folder or a file")
}

// A server with task sets allows more sessions, because their clients keep more rollouts in flight. The
// operator's setting has precedence.
func TestSessionsOfTaskSets(t *testing.T) {
	t.Parallel()

	for text, want := range map[string][2]int{
		"{}":                           {64, 1024},
		"task_sets: {math: {path: x}}": {1024, 2048},
		"serve: {max_sessions: 600}":   {600, 1200},
		"serve: {max_connections: 5}":  {64, 5},
		"{task_sets: {math: {path: x}}, serve: {max_sessions: 8}}": {8, 1024},
	} {
		c, err := config.Load(strings.NewReader(text), nil)
		require.NoError(t, err)
		require.NoError(t, c.Validate())
		require.Equal(t, want, [2]int{c.Sessions(), c.Connections()}, text)
	}
}

func TestHarborEnvironment(t *testing.T) {
	t.Parallel()

	c, err := config.Load(
		strings.NewReader(
			"task_sets: {math: {path: x}}\nenvironments: {harbor: {task_set: math, arguments: {endpoint: openai}}}",
		),
		nil,
	)
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.NotContains(t, c.Episodes(), config.HarborEnvironment, "it has no episodes")

	c.Environments[config.HarborEnvironment] = config.Environment{MaxSteps: 3, TaskSet: "other"}
	err = c.Validate()
	require.ErrorContains(t, err, "environments.harbor: must have no settings but task_set and arguments")
	require.ErrorContains(t, err, "environments.harbor.task_set: must be the name of one of task_sets")
}
