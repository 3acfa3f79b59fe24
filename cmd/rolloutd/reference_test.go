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

	root := command(std{io.Discard, io.Discard, nil})
	common := commonFlags(root)

	page.WriteString(`# Commands

This page is generated from the code; ` + "`rolloutd COMMAND --help`" + ` shows the same. The common flags are

| Flag | Default | Meaning |
|---|---|---|
`)

	for _, name := range slices.Sorted(maps.Keys(common)) {
		page.WriteString(rowOfFlag(t, common[name]))
	}

	for _, group := range root.Groups() {
		fmt.Fprintf(&page, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))

		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID && isDescribed(cmd) {
				describe(t, &page, cmd, common)
			}
		}
	}

	page.WriteString("\n## Others\n")

	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && isDescribed(cmd) {
			describe(t, &page, cmd, common)
		}
	}

	return page.String()
}

// commonFlags returns by name the flags that mean the same for four commands or more.
func commonFlags(root *cobra.Command) map[string]*pflag.Flag {
	type meaning struct{ name, usage, fallback string }

	uses := map[meaning]int{}
	common := map[string]*pflag.Flag{}

	for _, cmd := range commandsBelow(root) {
		for _, flag := range flagsOf(cmd) {
			same := meaning{flag.Name, flag.Usage, flag.DefValue}

			if uses[same]++; uses[same] == 4 && common[flag.Name] == nil {
				common[flag.Name] = flag
			}
		}
	}

	return common
}

// commandsBelow returns the commands below a command that the page describes.
func commandsBelow(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if isDescribed(sub) {
			all = append(append(all, sub), commandsBelow(sub)...)
		}
	}

	return all
}

// flagsOf returns the flags of a command that the page describes.
func flagsOf(cmd *cobra.Command) (all []*pflag.Flag) {
	if !cmd.Runnable() {
		return nil
	}

	cmd.NonInheritedFlags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && flag.Name != "help" {
			all = append(all, flag)
		}
	})

	return all
}

func rowOfFlag(t *testing.T, flag *pflag.Flag) string {
	t.Helper()
	require.NotContainsf(t, flag.Usage, "\n", "--%s: breaks the table", flag.Name)

	fallback := ""
	if !slices.Contains([]string{"", "false", "[]", "0", "0s", "-1"}, flag.DefValue) {
		fallback = "`" + flag.DefValue + "`"
	}

	return fmt.Sprintf("| `--%s` | %s | %s |\n", flag.Name, fallback, strings.ReplaceAll(flag.Usage, "|", `\|`))
}

// describe writes a command and those below it.
func describe(t *testing.T, page *strings.Builder, cmd *cobra.Command, common map[string]*pflag.Flag) {
	t.Helper()

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

		rows, shared := "", []string{}

		for _, flag := range flagsOf(cmd) {
			same := common[flag.Name]

			if same != nil && same.Usage == flag.Usage && same.DefValue == flag.DefValue {
				shared = append(shared, "`--"+flag.Name+"`")
			} else {
				rows += rowOfFlag(t, flag)
			}
		}

		if rows != "" {
			page.WriteString("\n| Flag | Default | Meaning |\n|---|---|---|\n" + rows)
		}

		if len(shared) > 0 {
			fmt.Fprintf(page, "\nCommon flags: %s.\n", strings.Join(shared, ", "))
		}
	}

	for _, sub := range cmd.Commands() {
		if isDescribed(sub) {
			describe(t, page, sub, common)
		}
	}
}

// isDescribed says whether the page has a command.
func isDescribed(cmd *cobra.Command) bool {
	return !cmd.Hidden && cmd.Name() != "help" && cmd.Name() != "completion"
}
