package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
)

func TestSinks(t *testing.T) {
	t.Parallel()

	c, err := config.Load(
		strings.NewReader("sinks: {disk: {kind: files, path: /data, shard_groups: 8, shard_age: 1m}}\n"),
		nil,
	)
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, 8, c.Sinks["disk"].ShardGroups)

	c.Sinks = map[string]config.Sink{
		"a/b":  {Kind: "files", Path: "x"},
		"none": {},
		"own":  {Kind: "trainer_api", URL: "trainer:8001"},
		"far":  {Kind: "atropos", URL: "http://trainer:8000", GroupSize: 8},
		"disk": {Kind: "files", Format: "csv", ShardGroups: -1, Sequences: "two", Subagents: "keep", Summaries: "all"},
	}

	err = c.Validate()
	for _, text := range []string{
		"sinks.a/b: sink: must be 1 to 40 letters", "sinks.none.kind: must be ", "sinks.disk.path: must be the path of a folder", `sinks.disk.format: must be jsonl or parquet, got "csv"`,
		"sinks.own.url: must be an http:// or https:// URL", "sinks.own.group_size: must be ", "sinks.far.max_token_length: must be ",
		"sinks.disk.shard_groups: must be 0 (the default, 1) or more", `sinks.disk.sequences: must be one or all, got "two"`, `sinks.disk.subagents: must be drop or separate, got "keep"`,
		`sinks.disk.summaries: must be drop or train, got "all"`,
	} {
		require.ErrorContains(t, err, text)
	}
}

// The token of a sink comes from the environment. An unset variable is an error only for the worker.
func TestTokensOfSinks(t *testing.T) {
	t.Parallel()

	file := `sinks:
  a: {kind: pull, url: "http://t:1", token_env: A}
  b: {kind: pull, url: "http://t:1", token_env: B}
  c: {kind: pull, url: "http://t:1", token_env: A, token: x}
`
	c, err := config.Load(strings.NewReader(file), config.Environ{"A": "secret"})
	require.NoError(t, err)
	require.Equal(t, "secret", c.Sinks["a"].Token)
	require.NoError(t, c.Sinks["a"].Missing)
	require.EqualError(t, c.Sinks["b"].Missing, "sinks.b.token_env: the variable B is not set")
	require.EqualError(t, c.Sinks["c"].Missing, "sinks.c: must have only one of token and token_env")
}
