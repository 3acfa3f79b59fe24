package grading

import "mvdan.cc/sh/v3/syntax"

// shown has a test that fails print its words as bash expanded them, the first 200 characters of each, to stderr.
const shown = `__shown() { builtin "$@" && return; local s=$? a; ` +
	`for a; do a=${a:0:200}; [[ $a =~ ^[][A-Za-z0-9_./=!-]+$ ]] || a=${a@Q}; printf '%s ' "$a"; done >&2; ` +
	`printf 'exited with %d\n' "$s" >&2; return "$s"; }; test() { __shown test "$@"; }; [() { __shown [ "$@"; }; `

// bareTest says whether a command is one call of test or [ and nothing else, which fails without a word.
func bareTest(file *syntax.File) bool {
	if len(file.Stmts) != 1 {
		return false
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated || s.Background || s.Coprocess || len(s.Redirs) > 0 || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return false
	}
	name := call.Args[0].Lit()
	return name == "test" || name == "["
}
