// Package command runs any command-line agent as an agent of rolloutd, by a description: where it comes from, its command line, its
// environment, and how its end is recognized. It has such descriptions for some well-known agents, see Presets.
package command

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Spec describes a command-line agent. The agent is one process, and its work ends with the process.
//
// Command, Check, and the values of Env and Files may have {dir} (the agent's folder in the sandbox), {instruction},
// {instruction_file}, {model_url} (http://127.0.0.1:7000/v1), {model_host} (the same without /v1), {max_tokens} (the bound of a reply),
// {platform} (linux-x64 or linux-arm64) and {arch} (x86_64 or aarch64).
type Spec struct {
	Name string
	// Package is an npm package with its exact version, as "@scope/name@1.2.3". It is installed on the host without install scripts and
	// without optional dependencies, and sandboxes see it read-only. {platform} is "linux-x64" or "linux-arm64".
	Package string
	// Integrity is the sha512 of the package as npm has it, by platform or "any"; empty: npm checks the registry's.
	Integrity map[string]string
	// Folder is a folder of the host, instead of Package. It is copied once; a change needs a new name of the folder.
	Folder string
	// Check is run in the sandbox after the installation and must exit with 0. Empty: nothing is run.
	Check []string
	// Command is the command line. Where neither {instruction} nor {instruction_file} is in it, the instruction is its stdin.
	Command []string
	// Env is added to the environment that every such agent has, see environment.
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

// maxArgument bounds an instruction that is an argument, in bytes: the kernel takes 128 KiB.
const maxArgument = 100 << 10

var (
	packagePattern = regexp.MustCompile(`^(@[a-z0-9._-]+/)?[a-z0-9._{}-]+@[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+{}-]*$`)
	namePattern    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
)

// Validate reports what is wrong with the description.
func (s Spec) Validate() error {
	_, failure := regexp.Compile(s.Failure)
	_, result := regexp.Compile(s.Result)
	for _, c := range []struct {
		ok          bool
		field, want string
	}{
		{namePattern.MatchString(s.Name), "name", "want lower-case letters, digits, '_' and '-', beginning with a letter, at most 32"},
		{s.Package == "" || s.Folder == "", "folder", "want package or folder, not both"},
		{s.Package == "" || packagePattern.MatchString(s.Package), "package", `want a package with its exact version such as "@scope/name@1.2.3"`},
		{s.Folder == "" || filepath.IsAbs(s.Folder), "folder", "want an absolute path"},
		{len(s.Command) > 0 && s.Command[0] != "", "command", "want a command line"},
		{s.Output == "" || filepath.IsAbs(s.Output), "output", "want an absolute path in the sandbox, or nothing for stdout"},
		{failure == nil, "failure", "want a regular expression"},
		{result == nil, "result", "want a regular expression"},
		{s.Package != "" || s.Folder != "" || !s.uses("{dir}"), "command", "{dir} needs a package or a folder"},
	} {
		if !c.ok {
			return fault.Field(c.field, "agent %q: %s: %s", s.Name, c.field, c.want)
		}
	}
	for path := range s.Files {
		if !filepath.IsAbs(path) {
			return fault.Field("files", "agent %q: files: want absolute paths, got %q", s.Name, path)
		}
	}
	return nil
}

// uses says whether a placeholder is in the command line.
func (s Spec) uses(placeholder string) bool {
	return slices.ContainsFunc(s.Command, func(arg string) bool { return strings.Contains(arg, placeholder) })
}

// failed says why output is a failure of an agent that exited with code 0; "" when it is none.
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
		return s.Name + " ended without its result", nil
	}
	return "", nil
}

// cut shortens a line that is quoted in a message.
func cut(line string) string {
	const most = 2000
	if len(line) > most {
		return strings.ToValidUTF8(line[:most], "?") + "…"
	}
	return strings.ToValidUTF8(line, "?")
}
