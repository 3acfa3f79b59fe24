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
	require.ErrorContains(t, err, "task_sets.a/b: want a name")
	require.ErrorContains(t, err, "task_sets.c.path: want a folder or a file")
}
