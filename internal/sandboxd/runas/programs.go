package runas

import (
	"regexp"
	"slices"
	"strings"
)

// tools only read and compare what they are given. They run beside the verifier. Every program that is in
// none of these lists runs with the work.
var tools = []string{
	"[", "b2sum", "base32", "base64", "basename", "bc", "cat", "cksum", "cmp", "comm", "cut", "date",
	"diff", "dirname", "echo", "egrep", "expand", "expr", "false", "fgrep", "file", "fmt", "fold",
	"grep", "head", "hexdump", "join", "kill", "ls", "md5sum", "mktemp", "nl", "numfmt", "od",
	"paste", "printf", "readlink", "realpath", "rev", "seq", "sha1sum", "sha224sum", "sha256sum",
	"sha384sum", "sha512sum", "shuf", "sleep", "sort", "stat", "strings", "sum", "tac", "tail", "test", "tr",
	"true", "uname", "uniq", "wc", "xxd", "yes",
}

// IsTool reports whether a program of that name runs beside the verifier whatever its arguments are.
func IsTool(name string) bool {
	return slices.Contains(tools, name)
}

// scripted are tools that may be given a file with a program, which can write files and start others, or read the verifier's
// (jq), by one of these options. What follows an option in the same argument is its value.
var scripted = map[string]*regexp.Regexp{
	"awk":  awkScript,
	"gawk": awkScript,
	"jq":   regexp.MustCompile(`^(?:-[CMSacehjnrs]*[fL]|--(?:from-file|library-path)(?:=|$))(.*)$`),
	"mawk": awkScript,
	"sed":  regexp.MustCompile(`^(?:-[nErsuz]*f|--file(?:=|$))(.*)$`),
}

var awkScript = regexp.MustCompile(`^(?:-[fEi]|--(?:file|exec|include)(?:=|$))(.*)$`)

// scriptsOf returns the files with programs that a tool is given.
func scriptsOf(name string, args []string) []string {
	var files []string

	for i, arg := range args {
		found := scripted[name].FindStringSubmatch(arg)

		switch {
		case found == nil:
		case found[1] != "":
			files = append(files, found[1])
		case i+1 < len(args):
			files = append(files, args[i+1])
		}
	}

	return files
}

// wrappers start another program, which is dispatched in turn.
var wrappers = []string{
	"chrt", "env", "find", "flock", "ionice", "nice", "nohup", "setsid", "stdbuf", "taskset", "time",
	"timeout", "xargs",
}

// fileTools copy and change files. They run beside the verifier only if one of its own paths is among their
// arguments, or they change its own image: what they make elsewhere must belong to the agent's user, whose programs use it.
var fileTools = []string{
	"chgrp", "chmod", "chown", "cp", "dd", "gunzip", "gzip", "install", "ln", "mkdir", "mv", "rm", "rmdir",
	"rsync", "tar", "tee", "touch", "truncate", "unzip", "zip",
}

// ownPrograms run beside the verifier if its author writes programs out (a test script, or a command with
// run-as-agent) and gives them no file of the work: they add packages for checks, or tell about their own
// process.
var ownPrograms = []string{
	"apt", "apt-get", "curl", "groups", "id", "pip", "pip3", "pipx", "printenv", "pwd", "uv", "uvx", "wget",
	"whoami",
}

// testRunners run the tests that they are given. Another program may start one, and give it its arguments: uvx pytest.
var testRunners = []string{
	"bats", "behave", "ctest", "jest", "mocha", "nose2", "phpunit", "prove", "py.test", "pytest", "rspec", "vitest",
}

// commanded are programs whose first argument is a command or the name of a program, and no file.
var commanded = []string{
	"bundle", "cargo", "coverage", "deno", "dotnet", "go", "hatch", "npm", "npx", "pip", "pip3", "pipenv", "pipx", "pnpm",
	"poetry", "uv", "uvx", "yarn",
}

// usesProject reports whether uv may build or run the project in the current folder. It does not if its first word is one
// of these commands.
func usesProject(name string, args []string) bool {
	first := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	return name == "uv" && first >= 0 && !slices.Contains([]string{"cache", "help", "pip", "python", "self", "tool", "venv"}, args[first])
}

// interpreters run code from their command line after one of these options, or from their standard input.
var interpreters = map[string]string{
	"bash":   "c",
	"bun":    "e",
	"dash":   "c",
	"ksh":    "c",
	"lua":    "e",
	"node":   "ep",
	"nodejs": "ep",
	"perl":   "eE",
	"php":    "r",
	"python": "c",
	"ruby":   "e",
	"sh":     "c",
	"zsh":    "c",
}

// shells are the interpreters whose programs are dispatched each.
var shells = []string{"bash", "dash", "ksh", "sh", "zsh"}

// isInline reports whether an interpreter runs code from its command line or its standard input.
func isInline(name string, args []string) bool {
	options, ok := interpreters[strings.TrimRight(name, "0123456789.")]
	if !ok {
		return false
	}

	for _, arg := range args {
		switch {
		case arg == "-" || arg == "--eval" || arg == "--print":
			return true
		case strings.HasPrefix(arg, "--"):
		case strings.HasPrefix(arg, "-"):
			if strings.ContainsAny(arg[1:], options) {
				return true
			}
		default:
			// a file, or the value of an option
			return false
		}
	}

	return true
}
