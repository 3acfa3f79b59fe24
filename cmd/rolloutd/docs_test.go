package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// Each command line of rolloutd in the documentation has a command, flags and a number of arguments that exist.
func TestCommandLinesOfDocs(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)

	seen := 0

	for _, file := range append(files, "../../README.md", "../../CONTRIBUTING.md", "../../clients/python/README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)

		for i, block := range strings.Split(string(text), "```") {
			language, lines, _ := strings.Cut(block, "\n")
			if i%2 == 0 || language != "sh" {
				continue
			}

			for _, args := range commandsOf(t, file, lines) {
				seen++

				checkCommand(t, file, args)
			}
		}
	}

	require.Greater(t, seen, 40, "the search for command lines is blind")
}

func checkCommand(t *testing.T, file string, args []string) {
	t.Helper()

	cmd, rest, err := command(std{io.Discard, io.Discard, nil}).Find(args)
	require.NoErrorf(t, err, "%s: rolloutd %s", file, strings.Join(args, " "))
	require.NoErrorf(t, cmd.ParseFlags(rest), "%s: rolloutd %s", file, strings.Join(args, " "))
	require.NoErrorf(t, cmd.ValidateRequiredFlags(), "%s: rolloutd %s", file, strings.Join(args, " "))
	require.NoErrorf(t, cmd.ValidateArgs(cmd.Flags().Args()), "%s: rolloutd %s", file, strings.Join(args, " "))
}

// Each YAML example of the documentation is a configuration file or a task file without an unknown or wrong field. Those
// that begin with a comment or are lists are files of other programs, or of tokens.
func TestExamplesOfDocs(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)

	seen := 0

	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)

		for i, block := range strings.Split(string(text), "```") {
			language, example, _ := strings.Cut(block, "\n")
			if i%2 == 0 || language != "yaml" || strings.HasPrefix(example, "#") || strings.HasPrefix(example, "-") {
				continue
			}

			seen++

			_, notConfig := config.Load(strings.NewReader(example), config.Environ{})
			if notConfig != nil {
				require.NoErrorf(t, readsAsTask(t, example), "%s:\n%s\nas a configuration: %s", file, example, notConfig)
			}
		}
	}

	require.Greater(t, seen, 20, "the search for examples is blind")
}

// readsAsTask reads a part of a task file.
func readsAsTask(t *testing.T, example string) error {
	t.Helper()

	if !strings.Contains(example, "instruction:") {
		example += "\ninstruction: x\n"
	}

	file := filepath.Join(t.TempDir(), "task.yaml")
	require.NoError(t, os.WriteFile(file, []byte(example), 0o600))

	set, err := taskset.Open(file)
	if err != nil {
		return err
	}
	defer set.Close()

	task, err := set.Task(0)
	if err != nil {
		return err
	}

	check, err := envserver.NewTaskCheck([]string{rollout.AgentOpencode}, []string{rollout.DefaultBackend})
	require.NoError(t, err)

	err = check.Check(task.Arguments())
	if err != nil && strings.Contains(err.Error(), "sandbox.network.max") {
		return nil // the operator of the example allows the hosts
	}

	return err
}

// commandsOf returns the arguments of each call of rolloutd in a shell script.
func commandsOf(t *testing.T, file, script string) (all [][]string) {
	t.Helper()

	parsed, err := syntax.NewParser().Parse(strings.NewReader(script), file)
	require.NoError(t, err)
	syntax.Walk(parsed, func(node syntax.Node) bool {
		if call, ok := node.(*syntax.CallExpr); ok && len(call.Args) > 0 &&
			filepath.Base(call.Args[0].Lit()) == "rolloutd" {
			args := []string{}

			for _, word := range call.Args[1:] {
				text, err := expand.Literal(nil, word)
				require.NoErrorf(t, err, "%s: %s", file, word.Pos())

				args = append(args, text)
			}

			all = append(all, args)
		}

		return true
	})

	return all
}
