package grading

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// A verify command decides by its exit code, so whatever the agent made and the command runs must not be
// able to kill, trace or rewrite what decides. The shell runs beside the verifier; each program that it
// starts is dispatched when it starts, by what its arguments name at that moment: see runas.Dispatch. The
// author's text only needs run-here before the programs:
//
//   - A command that mentions run-as-agent is left as it is. Its author decides, program by program.
//   - Builtins of bash, the functions that the command defines, and tools need none.
//   - Every other program gets run-here before it, wherever in the text it stands.
//
// The same holds for a test script. A program that a wrapper or a check starts by its name is dispatched by the PATH.

var builtins = []string{
	".", ":", "alias", "bg", "break", "builtin", "caller", "cd", "compgen", "complete", "continue", "declare",
	"dirs", "disown", "echo", "enable", "eval", "exit", "export", "false", "fg", "getopts", "hash", "help",
	"history", "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read",
	"readarray", "readonly", "return", "set", "shift", "shopt", "source", "suspend", "test", "times", "trap",
	"true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
}

const (
	runHere = runas.Shims + "/" + runas.RunHere

	// prefix of a word that may be a function or a builtin
	runHereIfProgram = "__run_here "
)

// dispatcher defines the function for words whose program is known only when the text runs: it may be a
// function or a builtin.
var dispatcher = `__run_here() { (($#)) || return 0; if declare -F -- "$1" >/dev/null; then "$@"; return; fi; case "$1" in ` +
	strings.ReplaceAll(
		strings.Join(builtins, "|"),
		".|",
		`.|\[|`,
	) + `) "$@" ;; *) ` + runHere + ` "$@" ;; esac; }; `

// commandArgs are the arguments with which bash runs a verify command.
func commandArgs(command string) []string {
	command = ownPaths(command)

	file, err := parsed(command)
	if decidesItself(command) {
		if err == nil {
			command = insert(command, guards(file, command))
		}

		return []string{"-c", command}
	}
	// the parser cannot read it: all of it runs as the agent's user
	if err != nil {
		return []string{"-c", `exec ` + runas.Name + ` bash --noprofile --norc -c "$1"`, "bash", command}
	}

	functions := dispatcher
	if bareTest(file) {
		functions = shown + dispatcher
	}

	return []string{"-c", functions + insert(command, prefixes(file, command))}
}

// decidesItself reports whether the author of a command names the programs of the work.
func decidesItself(command string) bool { return strings.Contains(command, runas.Name) }

// scriptText is the text of a test script as it is staged. A script that the parser cannot read stays as it is.
func scriptText(script string) string {
	script = ownPaths(script)

	file, err := parsed(script)
	if err != nil {
		return script
	}

	return insert(script, prefixes(file, script))
}

// guardTestFiles adds guards to files of the tests that the texts, or other such files, read or run as bash. Files are found by
// their names: a path may be composed. Others may be what work is compared with.
func guardTestFiles(files map[string]string, texts []string) {
	guarded := map[string]bool{}

	for len(texts) > 0 {
		names := readAsBash(texts[0])
		texts = texts[1:]

		for file, content := range files {
			if names[path.Base(file)] && !guarded[file] {
				guarded[file], files[file] = true, testFileText(content)
				texts = append(texts, content)
			}
		}
	}
}

// readAsBash returns the names of the files that a text reads by source, runs by bash, or runs by their paths.
func readAsBash(text string) map[string]bool {
	names := map[string]bool{}

	file, err := parsed(text)
	if err != nil {
		return names
	}

	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}

		for i, word := range call.Args {
			if i == 0 || slices.Contains(readers, lastCommand(call.Args[:i])) {
				names[path.Base(textOf(word, text))] = true
			}
		}

		return true
	})

	return names
}

// readers read the file that follows as bash, or start the program that follows.
var readers = []string{".", "source", "bash", "timeout", "env", "nice", "exec", "command"}

// lastCommand returns the name of the last word that is no option, number or assignment: bash in /bin/bash -euo pipefail.
func lastCommand(words []*syntax.Word) string {
	for i := len(words) - 1; i > 0; i-- {
		word, before := words[i].Lit(), words[i-1].Lit()

		// bash -euo pipefail, timeout -s KILL
		isSetting := before == "-s" || strings.HasPrefix(before, "-") && strings.HasSuffix(before, "o")
		if !isSetting && !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && !isDuration(word) {
			return path.Base(word)
		}
	}

	return path.Base(words[0].Lit())
}

// isDuration reports whether a word is a number, as timeout and nice have it: 60, 1.5m.
func isDuration(word string) bool { return word != "" && word[0] >= '0' && word[0] <= '9' }

// testFileText is the text of a file of the tests that is read as bash. It defines what its guards use, since a bash of its own
// may run it. One whose first line names another program stays as it is.
func testFileText(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	if strings.HasPrefix(first, "#!") && !strings.Contains(first, "bash") {
		return text
	}

	file, err := parsed(text)
	if err != nil {
		return text
	}

	all := guards(file, text)
	if len(all) == 0 {
		return text
	}

	return insert(text, append([]prefix{{int(file.Stmts[0].Pos().Offset()), plainValues}}, all...))
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

// prefixes returns the prefixes of all programs and of the arithmetic of the command.
func prefixes(file *syntax.File, command string) []prefix {
	functions, inWork, sources := map[string]bool{}, map[*syntax.CallExpr]bool{}, false

	var calls []*syntax.CallExpr

	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if call, ok := n.Cmd.(*syntax.CallExpr); ok {
				inWork[call] = readsCodeOfWork(n.Redirs, command)
			}
		case *syntax.FuncDecl:
			if n.Name != nil {
				functions[n.Name.Value] = true
			}
		case *syntax.CallExpr:
			calls = append(calls, n)
			sources = sources || len(n.Args) > 0 && slices.Contains([]string{".", "source", "eval"}, n.Args[0].Lit())
		}

		return true
	})

	var all []prefix

	for _, call := range calls {
		p, ok := prefixOf(call.Args, functions)
		// the name may be a function of the file that was read
		if ok && sources && int(call.Args[0].Pos().Offset()) == p.offset {
			p.text = runHereIfProgram
		}

		// an assignment cannot follow exec
		if ok && inWork[call] && int(call.Args[0].Pos().Offset()) == p.offset {
			p.text = runas.InlineCode + "= " + p.text
		}

		if ok {
			all = append(all, p)
		}
	}

	return append(all, guards(file, command)...)
}

// readsCodeOfWork reports whether the standard input is a text of the author that names nothing of the
// verifier's. As code of an interpreter it usually imports the work.
func readsCodeOfWork(redirections []*syntax.Redirect, command string) bool {
	for _, r := range redirections {
		if r.Hdoc != nil {
			return !runas.MentionsVerifier(command[r.Hdoc.Pos().Offset():r.Hdoc.End().Offset()])
		}
	}

	return false
}

// prefixOf is the prefix of a program, if it needs one.
func prefixOf(words []*syntax.Word, functions map[string]bool) (prefix, bool) {
	if len(words) == 0 {
		// assignments alone
		return prefix{}, false
	}

	put := runHere + " "

	switch name := words[0].Lit(); {
	case name == "exec" || name == "command": // these do not run functions
		if len(words) == 1 || strings.HasPrefix(words[1].Lit(), "-") {
			return prefix{}, false
		}

		words = words[1:]
	case name == "": // known only when the text runs
		put = runHereIfProgram
	}

	name := words[0].Lit()
	if slices.Contains(builtins, name) || runas.IsTool(name) || name == runas.Name || functions[name] {
		return prefix{}, false
	}

	return prefix{int(words[0].Pos().Offset()), put}, true
}

func insert(command string, all []prefix) string {
	slices.SortStableFunc(all, func(a, b prefix) int { return a.offset - b.offset })

	var b strings.Builder

	done := 0
	for _, p := range all {
		b.WriteString(command[done:p.offset] + p.text)
		done = p.offset
	}

	return b.String() + command[done:]
}

// legacyPath finds the verifier's folders as scripts of both generations name them.
var legacyPath = regexp.MustCompile(
	`(` + regexp.QuoteMeta(rollout.TestsDir) + `|` + regexp.QuoteMeta(rollout.VerifierDir) + `)([^A-Za-z0-9_.-]|$)`,
)

// ownPaths names the verifier's own folders where the author's text names those in the agent's home: there
// the agent's programs could put others in their place.
func ownPaths(text string) string {
	return legacyPath.ReplaceAllStringFunc(text, func(found string) string {
		if rest, ok := strings.CutPrefix(found, rollout.TestsDir); ok {
			return wire.VerifierTests + rest
		}

		return wire.VerifierLogs + strings.TrimPrefix(found, rollout.VerifierDir)
	})
}
