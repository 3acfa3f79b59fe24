// Package command runs command-line agents from a description: package, command line, environment, and how
// a failure is recognized. Presets has descriptions of well-known agents.
package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Spec describes a command-line agent. The agent is one process, and its work ends with the process.
//
// Command, Check, and the values of Env and Files may have {dir} (the agent's folder in the sandbox),
// {instruction}, {instruction_file}, {model_url} (http://127.0.0.1:7000/v1), {model_host} (the same without
// /v1), {max_tokens} (the bound of a reply), {platform} (linux-x64 or linux-arm64) and {arch} (x86_64 or
// aarch64).
type Spec struct {
	Name string
	// Package is an npm package with its exact version, as "@scope/name@1.2.3". It is installed on the host
	// without install scripts and without optional dependencies, and sandboxes see it read-only. {platform}
	// is "linux-x64" or "linux-arm64".
	Package string
	// Integrity is npm's sha512 of the package, by platform or "any"; empty: npm checks only the registry's hash.
	Integrity map[string]string
	// Folder is a folder of the host, instead of Package. It is copied once; a changed folder needs a new name.
	Folder string
	// Check is run in the sandbox after the installation and must exit with 0. Empty: no check.
	Check []string
	// Command is the command line. If it has neither {instruction} nor {instruction_file}, the instruction
	// is its stdin.
	Command []string
	// Env is added to the environment of every command agent, see environment.
	Env map[string]string
	// Files are written before the agent starts: absolute path in the sandbox → text.
	Files map[string]string
	// Output is the file with the agent's own record of its work; empty: its stdout.
	Output string
	// Failure is a regular expression. A line of the output that matches makes an exit with code 0 a failure.
	Failure string
	// Result is a regular expression. Without a line of the output that matches, an exit with code 0 is a failure.
	Result string
}

// maxArgument bounds an instruction that is an argument, in bytes. The kernel's limit is 128 KiB.
const maxArgument = 100 << 10

var (
	packagePattern = regexp.MustCompile(`^(@[a-z0-9._-]+/)?[a-z0-9._{}-]+@[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+{}-]*$`)
	namePattern    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
)

// Validate returns the first problem of the description.
func (s Spec) Validate() error {
	_, failure := regexp.Compile(s.Failure)

	_, result := regexp.Compile(s.Result)
	for _, c := range []struct {
		ok             bool
		field, problem string
	}{
		{
			namePattern.MatchString(s.Name), "name",
			"must be at most 32 lower-case letters, digits, '_' and '-', beginning with a letter",
		},
		{s.Package == "" || s.Folder == "", "folder", "must be empty if the agent has a package"},
		{
			s.Package == "" || packagePattern.MatchString(s.Package), "package",
			fmt.Sprintf(`must have an exact version such as "@scope/name@1.2.3", got %q`, s.Package),
		},
		{s.Folder == "" || filepath.IsAbs(s.Folder), "folder", "must be an absolute path"},
		{len(s.Command) > 0 && s.Command[0] != "", "command", "must begin with the program to run"},
		{
			s.Output == "" || filepath.IsAbs(s.Output), "output",
			"must be an absolute path in the sandbox, or empty for stdout",
		},
		{failure == nil, "failure", fmt.Sprintf("must be a regular expression: %v", failure)},
		{result == nil, "result", fmt.Sprintf("must be a regular expression: %v", result)},
		{s.Package != "" || s.Folder != "" || !s.uses("{dir}"), "command", "{dir} needs a package or a folder"},
	} {
		if !c.ok {
			return fmt.Errorf("agent %q: %w", s.Name, fault.Field(c.field, "%s", c.problem))
		}
	}

	if err := s.checkPlaceholders(); err != nil {
		return fmt.Errorf("agent %q: %w", s.Name, err)
	}

	for path := range s.Files {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("agent %q: %w", s.Name, fault.Field("files", "must have absolute paths, got %q", path))
		}
	}

	return nil
}

// uses reports whether the command line has a placeholder.
func (s Spec) uses(placeholder string) bool {
	return slices.ContainsFunc(s.Command, func(arg string) bool { return strings.Contains(arg, placeholder) })
}

// failed returns why the output of an agent that exited with code 0 means a failure; "" if it does not.
func (s Spec) failed(output string) (string, error) {
	failure, err := regexp.Compile(s.Failure)

	result, errResult := regexp.Compile(s.Result)
	if err := errors.Join(err, errResult); err != nil {
		return "", err
	}

	found := s.Result == ""
	for line := range strings.Lines(output) {
		if s.Failure != "" && failure.MatchString(line) {
			return s.Name + " reported a failure: " + cut(strings.TrimSpace(line)), nil
		}

		found = found || result.MatchString(line)
	}

	if !found {
		return s.Name + " ended without a result in its output", nil
	}

	return "", nil
}

// cut shortens a line for a message.
func cut(line string) string {
	const maxLine = 2000
	if len(line) > maxLine {
		return strings.ToValidUTF8(line[:maxLine], "?") + "…"
	}

	return strings.ToValidUTF8(line, "?")
}
