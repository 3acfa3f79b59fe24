package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const referencePage = "../../docs/reference/cli.md"

// The reference of the command line is made of the commands and their flags.
func TestReferenceOfCommands(t *testing.T) {
	t.Parallel()

	page := referenceOfCommands(t)

	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(referencePage, []byte(page), 0o644))
	}

	written, err := os.ReadFile(referencePage)
	require.NoError(t, err)
	require.Equal(
		t,
		string(written),
		page,
		"UPDATE=1 go test ./cmd/rolloutd -run TestReferenceOfCommands writes the page",
	)
}

func referenceOfCommands(t *testing.T) string {
	t.Helper()

	var page strings.Builder

	page.WriteString(`# Commands

This page is generated from the code; ` + "`rolloutd COMMAND --help`" + ` shows the same. The common flags are

| Flag | Meaning |
|---|---|
`)

	for _, name := range slices.Sorted(maps.Keys(commonFlags())) {
		fmt.Fprintf(&page, "| `--%s` | %s |\n", name, commonFlags()[name])
	}

	root := command(std{io.Discard, io.Discard, nil})

	for _, group := range root.Groups() {
		fmt.Fprintf(&page, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))

		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID {
				describe(t, &page, cmd)
			}
		}
	}

	page.WriteString("\n## Others\n")

	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && cmd.Name() != "help" && cmd.Name() != "completion" {
			describe(t, &page, cmd)
		}
	}

	return page.String()
}

// commonFlags are the flags of many commands, with their meaning.
func commonFlags() map[string]string {
	return map[string]string{
		"server":  "URL of the server (or ROLLOUTD_SERVER; set a bearer token in ROLLOUTD_TOKEN)",
		"config":  "configuration file (YAML); the environment overrides it",
		"data":    "data folder (default ./.rolloutd, or ROLLOUTD_DATA)",
		"verbose": "log more",
	}
}

// describe writes a command and those below it.
func describe(t *testing.T, page *strings.Builder, cmd *cobra.Command) {
	t.Helper()

	if cmd.Hidden {
		return
	}

	if cmd.Runnable() {
		fmt.Fprintf(
			page,
			"\n### rolloutd %s\n\n%s.\n",
			strings.TrimPrefix(cmd.CommandPath(), "rolloutd "),
			strings.TrimSuffix(cmd.Short, "."),
		)
		fmt.Fprintf(page, "\n```\n%s\n```\n", cmd.UseLine())

		if cmd.Long != "" {
			fmt.Fprintf(page, "\n%s\n", strings.TrimSpace(cmd.Long))
		}

		flags, common := 0, []string{}

		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}

			if commonFlags()[f.Name] == f.Usage {
				common = append(common, "`--"+f.Name+"`")
				return
			}

			require.NotContainsf(t, f.Usage, "\n", "rolloutd %s --%s: breaks the table", cmd.Name(), f.Name)

			if flags++; flags == 1 {
				page.WriteString("\n| Flag | Default | Meaning |\n|---|---|---|\n")
			}

			fallback := ""
			if !slices.Contains([]string{"", "false", "[]", "0", "0s", "-1"}, f.DefValue) {
				fallback = "`" + f.DefValue + "`"
			}

			fmt.Fprintf(page, "| `--%s` | %s | %s |\n", f.Name, fallback, strings.ReplaceAll(f.Usage, "|", `\|`))
		})

		if len(common) > 0 {
			fmt.Fprintf(page, "\nCommon flags: %s.\n", strings.Join(common, ", "))
		}
	}

	for _, sub := range cmd.Commands() {
		describe(t, page, sub)
	}
}
