package grading

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
)

// What work prints can be more than a value where the author's text has no quotes: [ $(./prog) = Hello ] is true for
// 1 = 1 -o 1, and [[ Hello == $(./prog) ]] for *. So the author's text is changed there: such a call of test may have no more
// words than the author wrote, and what a command prints is no pattern.

// boundedWords defines what guards of test use. The error is bash's own for too many words.
const boundedWords = `__words() { local __n=$1; shift; (($# <= __n)) && { "$@"; return; }; echo "$1: too many arguments" >&2; return 2; }; `

// guardOfTest returns what is inserted before a call of test or [ in which an expansion without quotes may add words.
func guardOfTest(call *syntax.CallExpr) []prefix {
	if len(call.Args) == 0 || !slices.Contains([]string{"test", "["}, call.Args[0].Lit()) {
		return nil
	}

	splits := false

	for _, word := range call.Args[1:] {
		// "$@" is as many words as the caller wrote
		if hasList(word) {
			return nil
		}

		splits = splits || slices.ContainsFunc(word.Parts, isValue)
	}

	if !splits {
		return nil
	}

	return []prefix{{int(call.Args[0].Pos().Offset()), fmt.Sprintf("__words %d ", len(call.Args))}}
}

// hasList reports whether a word has an expansion of all parameters, or of all elements of an array.
func hasList(word *syntax.Word) bool {
	found := false

	syntax.Walk(word, func(n syntax.Node) bool {
		if p, ok := n.(*syntax.ParamExp); ok && !p.Length {
			index, _ := p.Index.(*syntax.Word)
			found = found || isAll(p.Param.Value) || index != nil && isAll(index.Lit())
		}

		return !found
	})

	return found
}

func isAll(name string) bool { return name == "@" || name == "*" }

// isValue reports whether a part of a word is what a command prints, or the value of a variable that may be more than a number.
func isValue(part syntax.WordPart) bool {
	switch n := part.(type) {
	case *syntax.CmdSubst:
		return true
	case *syntax.ParamExp:
		return !isNumber(n)
	default:
		return false
	}
}

// isNumber reports whether bash gives a number: a length, a status, a count or a process.
func isNumber(n *syntax.ParamExp) bool {
	return n.Length || n.Width || slices.Contains([]string{"?", "#", "$", "!"}, n.Param.Value)
}

// activation defines what stands before source VENV/bin/activate. Such a script of the work would run as the verifier, so only
// what every one of them does is done: the environment's programs come first.
const activation = `__activate() { local __bin __folder; __bin=$([[ -f $1 ]] && cd -P -- "${1%activate}" && pwd -P) 2> /dev/null || return; ` +
	`__folder=$__bin; until __folder=${__folder%/*}; [[ :${ROLLOUTD_WORK_FOLDERS:-/home/user:/tmp:/var/tmp:/dev/shm}: == *":$__folder:"* ]]; do ` +
	`[[ $__folder ]] || return 1; done; ` +
	`export VIRTUAL_ENV=${__bin%/bin}; export PATH=$__bin:$PATH; unset PYTHONHOME; ` +
	`deactivate() { PATH=${PATH#"$VIRTUAL_ENV/bin:"}; unset VIRTUAL_ENV; unset -f deactivate; }; }; `

// guardOfActivation returns what is inserted around a call that activates a virtual environment.
func guardOfActivation(call *syntax.CallExpr, text string) []prefix {
	if len(call.Args) != 2 || len(call.Assigns) > 0 || !slices.Contains([]string{"source", "."}, call.Args[0].Lit()) {
		return nil
	}

	from, to := call.Args[1].Pos().Offset(), call.Args[1].End().Offset()
	if file := text[from:to]; strings.HasSuffix(strings.TrimRight(file, `'"`), "bin/activate") && !strings.ContainsAny(file, "(\x60") {
		return []prefix{{int(call.Args[0].Pos().Offset()), "{ __activate " + file + " || "}, {int(to), "; }"}}
	}

	return nil
}

// outputs tell which values of a text may be what a command has printed.
type outputs struct {
	text string

	// variables that the text sets so
	names map[string]bool
}

// outputsOf finds the variables of a text.
func outputsOf(file *syntax.File, text string) outputs {
	o := outputs{text: text, names: map[string]bool{"REPLY": true, "MAPFILE": true}}

	// a variable may be set from one that the text sets further below
	for before := 0; before < len(o.names); {
		before = len(o.names)
		authors := o.authorsReads(file)

		syntax.Walk(file, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Assign:
				if n.Name != nil && (n.Value != nil && o.has(n.Value) || n.Array != nil && o.has(n.Array)) {
					o.names[n.Name.Value] = true
				}
			case *syntax.WordIter:
				if slices.ContainsFunc(n.Items, func(w *syntax.Word) bool { return o.has(w) }) {
					o.names[n.Name.Value] = true
				}
			case *syntax.CallExpr:
				if !authors[n] {
					o.addRead(n.Args)
				}
			}

			return true
		})
	}

	return o
}

// authorsReads finds the commands whose standard input is what the author wrote, such as read in a loop over a table.
func (o outputs) authorsReads(file *syntax.File) map[*syntax.CallExpr]bool {
	all := map[*syntax.CallExpr]bool{}
	mark := func(below syntax.Node, authors bool) {
		syntax.Walk(below, func(n syntax.Node) bool {
			if call, ok := n.(*syntax.CallExpr); ok {
				all[call] = authors
			}

			return true
		})
	}

	// the innermost input counts, which Walk comes to last
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			for _, r := range n.Redirs {
				if authors, ok := o.isAuthorsInput(r); ok {
					mark(n, authors)
				}
			}
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				mark(n.Y, o.printsAuthors(n.X))
			}
		}

		return true
	})

	return all
}

// isAuthorsInput reports whether a redirection gives an input, and whether the author wrote it.
func (o outputs) isAuthorsInput(r *syntax.Redirect) (authors, ok bool) {
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		return r.Hdoc == nil || !o.has(r.Hdoc), true
	case syntax.WordHdoc:
		return !o.has(r.Word), true
	case syntax.RdrIn:
		return o.isVerifiers(r.Word), true
	default:
		return false, false
	}
}

// addRead adds the variables that a builtin reads.
func (o outputs) addRead(words []*syntax.Word) {
	if len(words) == 0 || !slices.Contains([]string{"read", "mapfile", "readarray"}, words[0].Lit()) {
		return
	}

	for _, word := range words[1:] {
		if syntax.ValidName(word.Lit()) {
			o.names[word.Lit()] = true
		}
	}
}

// has reports whether a part of a text has what a command prints, or a variable with it. Arithmetic gives a number.
func (o outputs) has(part syntax.Node) bool {
	found := false

	syntax.Walk(part, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ArithmExp:
			return false
		case *syntax.CmdSubst:
			found = found || !o.isAuthors(n)
			return false
		case *syntax.ProcSubst:
			found = true
		case *syntax.ParamExp:
			found = found || !n.Length && o.names[n.Param.Value]
		}

		return !found
	})

	return found
}

// isAuthors reports whether a substitution gives only what the author wrote.
func (o outputs) isAuthors(n *syntax.CmdSubst) bool {
	return len(n.Stmts) == 1 && o.printsAuthors(n.Stmts[0])
}

// printsAuthors reports whether a command prints only what the author wrote: words of the text, or files of the verifier's.
func (o outputs) printsAuthors(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if s.Cmd != nil && !ok {
		return false
	}

	if call == nil || len(call.Args) == 0 {
		return o.readsAuthors(s)
	}

	args := call.Args[1:]

	switch call.Args[0].Lit() {
	case "echo", "printf":
		return !slices.ContainsFunc(args, func(w *syntax.Word) bool { return o.has(w) })
	case "cat":
		return o.readsAuthors(s) && len(args) == 0 ||
			len(args) > 0 && !slices.ContainsFunc(args, func(w *syntax.Word) bool { return !o.isVerifiers(w) })
	default:
		return false
	}
}

// readsAuthors reports whether a command has one redirection, which gives it what the author wrote.
func (o outputs) readsAuthors(s *syntax.Stmt) bool {
	if len(s.Redirs) != 1 {
		return false
	}

	authors, _ := o.isAuthorsInput(s.Redirs[0])

	return authors
}

func (o outputs) isVerifiers(file *syntax.Word) bool {
	return runas.MentionsVerifier(textOf(file, o.text)) && !o.has(file)
}

// quotes returns quotes around the parts of a pattern that a command has printed.
func (o outputs) quotes(pattern syntax.Node) []prefix {
	word, ok := pattern.(*syntax.Word)
	if !ok {
		return nil
	}

	var all []prefix

	for _, part := range word.Parts {
		if isValue(part) && o.has(part) {
			all = append(all, prefix{int(part.Pos().Offset()), `"`}, prefix{int(part.End().Offset()), `"`})
		}
	}

	return all
}
