package grading

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Exit statuses of a shell for a program that it cannot start or find.
const (
	notStarted = 126
	notFound   = 127
)

// Last lines of standard error that name a program which was not found. What starts the work's programs names the
// PATH too. The others are bash's, for tools that run beside the verifier, and those of programs that start another.
var (
	missingInPath = regexp.MustCompile(`^run-as-agent: argv: no program "([^"/]+)" in PATH "([^"]*)"$`)
	missing       = regexp.MustCompile(`^bash: line [0-9]+: ([^:/]+): command not found$`)
	missingToRun  = regexp.MustCompile(`^(?:nice|nohup|setsid|stdbuf|time|timeout): .*['‘]([^'’/]+)['’]: No such file or directory$`)

	// a line of Python, which then ends with 1
	noModule = regexp.MustCompile(`^(?:\S*/)?python[0-9.]*: No module named ([A-Za-z0-9_]+)$`)

	// a file of the verifier's own, by its path
	notOpened = regexp.MustCompile(`(?:^|: )(/verifier/(?:home/)?tests/[^:]+): (?i:(permission denied)|no such file or directory)$`)
)

// commandEnd is how a verify command ended without the agent's work.
type commandEnd struct {
	exitCode int

	// the last line
	stderr string
}

// cannotStart reports whether a command ended as one does whose own program is missing or cannot be executed. The work
// can cause this, too: only a run without it decides.
func cannotStart(c rollout.CommandResult) bool {
	line := lastLine(c.Stderr)
	if c.ExitCode == 1 && lacksModule(line) {
		return true
	}

	if c.ExitCode != notStarted && c.ExitCode != notFound {
		return false
	}

	for _, r := range []*regexp.Regexp{missingInPath, missing, missingToRun, notOpened} {
		if r.MatchString(line) {
			return true
		}
	}

	return false
}

// lacksModule reports whether a line is Python's about a module that runs tests and is missing.
func lacksModule(line string) bool {
	found := noModule.FindStringSubmatch(line)
	return found != nil && slices.Contains(runnerModules, found[1])
}

// mayMiss reports whether a run without the agent's work can tell that a command lacks its own program. With a script the
// commands may not decide the reward.
func mayMiss(job Job, record Record) bool {
	return job.Verifier.Script == "" && slices.ContainsFunc(record.Commands, cannotStart)
}

// lacksProgram reports whether a command that ended like this without the agent's work cannot succeed whatever the work
// is: it needs a file of the verifier's that is missing or cannot be executed, or its PATH has no such program and only
// folders of the system, in which the verifier's sandbox has what the image has. searchPath is the PATH of the
// verifier's processes.
func lacksProgram(v rollout.Verifier, command string, end commandEnd, searchPath string) bool {
	if !isSequence(command) {
		return false
	}

	if lacksModule(end.stderr) {
		return !searchesWork(command)
	}

	if found := missingInPath.FindStringSubmatch(end.stderr); found != nil {
		return isSystemPath(found[2])
	}

	if missing.MatchString(end.stderr) || missingToRun.MatchString(end.stderr) {
		return isSystemPath(searchPath) && !strings.Contains(command, "PATH")
	}

	found := notOpened.FindStringSubmatch(end.stderr)

	// an existing file is "not found" if its interpreter is, which the work may provide
	return found != nil && (found[2] != "" || !hasFile(v, found[1]))
}

// isSequence reports whether a command is programs one after another, each called by its name: what fails in one of
// them depends on no branch that other work does not take, and on no file that the work may have.
func isSequence(command string) bool {
	file, err := parsed(command)
	if err != nil {
		return false
	}

	is := true

	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.IfClause, *syntax.CaseClause, *syntax.WhileClause, *syntax.ForClause, *syntax.FuncDecl:
			is = false
		case *syntax.BinaryCmd:
			is = is && n.Op == syntax.AndStmt
		case *syntax.CallExpr:
			is = is && (len(n.Args) == 0 || !slices.Contains(runText, n.Args[0].Lit()))
		}

		return is
	})

	return is
}

// runText are commands that run a text, which may be the work's; "" is one that is known only when it runs.
var runText = []string{"", ".", "source", "eval", "bash", "sh", "dash", "zsh", "xargs", "trap"}

// isSystemPath reports whether a PATH has only folders that no work can change in a verifier's sandbox.
func isSystemPath(list string) bool {
	for folder := range strings.SplitSeq(list, ":") {
		system := slices.ContainsFunc([]string{"/bin", "/sbin", "/usr", "/opt/rolloutd", "/verifier/bin"}, func(of string) bool {
			return folder == of || strings.HasPrefix(folder, of+"/")
		})
		if !system || rollout.CheckGradePath("", folder) == nil {
			return false
		}
	}

	return true
}

// hasFile reports whether the verifier has a file at a path of its sandbox, or may have it in its archive.
func hasFile(v rollout.Verifier, at string) bool {
	if v.FilesRef != nil {
		return true
	}

	_, name, _ := strings.Cut(path.Clean(at), path.Base(wire.VerifierTests)+"/")
	files, err := testFiles(v)
	_, has := files[name]

	return err != nil || has
}
