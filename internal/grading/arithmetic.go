package grading

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// Bash evaluates the values in arithmetic once more, and runs a command in a subscript: [[ $(./prog) -eq 42 ]] and
// (( n == 42 )) run what work has written that prints or is a[$(command)], as the verifier. So the author's text is
// changed there: what a command prints loses the characters that can begin a command, and a variable whose value has one of
// them makes the arithmetic fail.

// plainValues defines what guards use.
const plainValues = "__runs='[[$\x60]'; __harmless='[^[$\x60]'; " + `__plain() { printf %s "${*//$__runs/}"; }; `

// comparisons are the operators of [[ whose operands are arithmetic.
var comparisons = []syntax.BinTestOperator{
	syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr,
}

// guards returns what is inserted into the arithmetic of a text, in order for one offset.
func guards(file *syntax.File, text string) []prefix {
	var all []prefix

	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ArithmCmd:
			all = append(all, guardsOf(n.X, text)...)
		case *syntax.ArithmExp:
			all = append(all, guardsOf(n.X, text)...)
		case *syntax.CStyleLoop:
			for _, x := range []syntax.ArithmExpr{n.Init, n.Cond, n.Post} {
				all = append(all, guardsOf(x, text)...)
			}
		case *syntax.BinaryTest:
			if slices.Contains(comparisons, n.Op) {
				all = append(all, guardsOf(n.X, text)...)
				all = append(all, guardsOf(n.Y, text)...)
			}
		}

		return true
	})

	return all
}

// guardsOf returns what is inserted into one expression: guards of its variables before it, then those of what commands and
// operations on variables give.
func guardsOf(expression syntax.Node, text string) []prefix {
	if expression == nil || !expression.Pos().IsValid() {
		return nil
	}

	var (
		values   []prefix
		names    []string
		assigned []string
	)

	syntax.Walk(expression, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryArithm:
			if name, ok := n.X.(*syntax.Word); ok && n.Op == syntax.Assgn && name.Lit() != "" {
				assigned = append(assigned, name.Lit())
				values = append(values, guardsOf(n.Y, text)...)

				return false
			}
		case *syntax.Lit:
			if syntax.ValidName(n.Value) {
				names = append(names, n.Value)
			}
		case *syntax.ParamExp:
			offset := int(n.Pos().Offset())

			switch {
			case text[offset] != '$':
				names = append(names, n.Param.Value+"[*]")
				values = append(values, guardsOfKeys(n.Index, text)...)
			case n.Length || n.Width || slices.Contains([]string{"?", "#", "$", "!", "-"}, n.Param.Value):
			case n.Excl || n.Index != nil || n.Slice != nil || n.Repl != nil || n.Exp != nil:
				values = append(values, guardsOfValue(n)...)
			default:
				names = append(names, n.Param.Value)
			}

			return false
		case *syntax.CmdSubst:
			values = append(values, guardsOfValue(n)...)
			return false
		case *syntax.ArithmExp:
			// a number, with guards of its own
			return false
		}

		return true
	})

	slices.Sort(names)

	var all []prefix

	for _, name := range slices.Compact(names) {
		// One that the expression sets has a number, and may be unset before. A read of RANDOM changes what the next one gives.
		if !slices.Contains(assigned, name) && name != "RANDOM" {
			all = append(all, prefix{int(expression.Pos().Offset()), "${" + name + "//$__harmless/}"})
		}
	}

	return append(all, values...)
}

// guardsOfKeys are those of a subscript, in which a bare word may be a key.
func guardsOfKeys(index syntax.ArithmExpr, text string) []prefix {
	word, ok := index.(*syntax.Word)
	if !ok || word.Lit() != "" {
		return nil
	}

	return guardsOf(word, text)
}

// guardsOfValue let nothing pass that can begin a command.
func guardsOfValue(n syntax.Node) []prefix {
	return []prefix{{int(n.Pos().Offset()), `$(__plain "`}, {int(n.End().Offset()), `")`}}
}
