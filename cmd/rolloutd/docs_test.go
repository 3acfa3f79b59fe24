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
