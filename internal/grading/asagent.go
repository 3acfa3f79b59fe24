package grading

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// A verify command decides by its exit code, so whatever the agent made and the command runs must not be able to kill, trace or
// rewrite what decides. The shell and the tools that only read and compare therefore run as the verifier, and every other
// program of the command runs as the agent's user. Which is which is read from the author's text, before anything runs:
//
//   - A command that mentions run-as-agent is left as it is. Its author decides, program by program.
//   - Builtins of bash, the functions that the command defines, and judges run as the verifier.
//   - So does a program that lies in the tests folder, or is given a file of it as its first argument (python3 $TESTS_DIR/x.py,
//     python3 -m pytest $TESTS_DIR).
//   - Every other program gets run-as-agent before it, wherever in the command it stands.
//
// A list of programs that execute code would let an unknown one run the agent's code as the verifier. The list of judges errs
// the other way: an unknown tool runs as the agent's user, who can read what the agent made.

// judges are programs that only read and compare their inputs.
var judges = []string{
	"[", "awk", "b2sum", "basename", "bc", "cat", "cksum", "cmp", "comm", "cut", "date", "diff", "dirname", "egrep", "expand", "expr",
	"fgrep", "fmt", "fold", "gawk", "grep", "head", "hexdump", "join", "jq", "ls", "mawk", "md5sum", "mktemp", "nl", "od", "paste",
	"readlink", "realpath", "rev", "sed", "seq", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "sleep", "sort",
	"stat", "strings", "tac", "tail", "tr", "uniq", "wc", "xxd",
}

var builtins = []string{
	".", ":", "alias", "bg", "break", "builtin", "caller", "cd", "compgen", "complete", "continue", "declare", "dirs", "disown", "echo",
	"enable", "eval", "exit", "export", "false", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local", "logout",
	"mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift", "shopt", "source",
	"suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
}

// wrapper runs a program as the agent's user, unless the shell stands in a folder of the verifier, or the word that names the
// program turns out to be a function or a builtin.
var wrapper = `__as_agent() { (($#)) || return 0; ` +
	`if [[ $PWD/ == /verifier/* ]] || declare -F -- "$1" >/dev/null; then "$@"; return; fi; ` +
	`case "$1" in ` + strings.ReplaceAll(strings.Join(builtins, "|"), ".|", `.|\[|`) + `) "$@" ;; *) ` + runas.Name + ` "$@" ;; esac; }; `

// commandArgs are the arguments with which bash runs a verify command.
func commandArgs(command string) []string {
	command = ownPaths(command)
	if strings.Contains(command, runas.Name) {
		return []string{"-c", command}
	}
	file, err := parsed(command)
	if err != nil { // the parser cannot read it: all of it runs as the agent's user
		return []string{"-c", `exec ` + runas.Name + ` bash --noprofile --norc -c "$1"`, "bash", command}
	}
	functions := wrapper
	if bareTest(file) {
		functions = shown + wrapper
	}
	return []string{"-c", functions + insert(command, prefixes(file, command))}
}

func parsed(command string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
}

// parses reports whether the parser can read a command as bash.
func parses(command string) bool {
	_, err := parsed(command)
	return err == nil
}

// prefix is a text to insert into a command.
type prefix struct {
	offset int
	text   string
}

// prefixes returns the prefixes of all programs of the command, in order.
func prefixes(file *syntax.File, command string) []prefix {
	functions := map[string]bool{}
	var calls []*syntax.CallExpr
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				functions[n.Name.Value] = true
			}
		case *syntax.CallExpr:
			calls = append(calls, n)
		}
		return true
	})
	var all []prefix
	for _, call := range calls {
		if p, ok := prefixOf(call.Args, functions, command); ok {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b prefix) int { return a.offset - b.offset })
	return all
}

// prefixOf is the prefix of a program, if it needs one.
func prefixOf(words []*syntax.Word, functions map[string]bool, command string) (prefix, bool) {
	if len(words) == 0 {
		return prefix{}, false // assignments alone
	}
	drop := "__as_agent "
	if name := words[0].Lit(); name == "exec" || name == "command" { // these do not run functions
		if len(words) == 1 || strings.HasPrefix(words[1].Lit(), "-") {
			return prefix{}, false
		}
		words, drop = words[1:], runas.Name+" "
	}
	name := words[0].Lit() // "" where it is not literal
	if slices.Contains(builtins, name) || slices.Contains(judges, name) || functions[name] {
		return prefix{}, false
	}
	at := int(words[0].Pos().Offset())
	tests, module := ofTests(words, command)
	if !tests {
		return prefix{at, drop}, true
	}
	// python -m looks into the workdir first: a module there must not take the place of one that is meant.
	return prefix{at, "PYTHONSAFEPATH=1 "}, module && drop == "__as_agent "
}

var testsPath = regexp.MustCompile(`TESTS_DIR|~/tests(/|\W|$)|` + regexp.QuoteMeta(wire.VerifierTests))

// ofTests reports whether the program lies in the tests folder, or its first argument that is no option does. After python's -m
// any argument counts, because the program is the module.
func ofTests(words []*syntax.Word, command string) (tests, module bool) {
	if name := words[0].Lit(); name == "" || strings.Contains(name, "/") { // a program of the workdir, or one not known yet
		words = words[:1]
	}
	for i, w := range words {
		word := command[w.Pos().Offset():w.End().Offset()]
		switch {
		case testsPath.MatchString(word):
			return true, module
		case i == 0 || module:
		case word == "-m":
			module = true
		case !strings.HasPrefix(word, "-"):
			return false, module
		}
	}
	return false, module
}

func insert(command string, all []prefix) string {
	var b strings.Builder
	done := 0
	for _, p := range all {
		b.WriteString(command[done:p.offset] + p.text)
		done = p.offset
	}
	return b.String() + command[done:]
}

// legacyPath finds the verifier's folders as scripts of both generations name them.
var legacyPath = regexp.MustCompile(`(` + regexp.QuoteMeta(rollout.TestsDir) + `|` + regexp.QuoteMeta(rollout.VerifierDir) + `)([^A-Za-z0-9_.-]|$)`)

// ownPaths names the verifier's own folders where the author's text names those in the agent's home: there the agent's programs
// could put others in their place.
func ownPaths(text string) string {
	return legacyPath.ReplaceAllStringFunc(text, func(found string) string {
		if rest, ok := strings.CutPrefix(found, rollout.TestsDir); ok {
			return wire.VerifierTests + rest
		}
		return wire.VerifierLogs + strings.TrimPrefix(found, rollout.VerifierDir)
	})
}
