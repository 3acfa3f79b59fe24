package grading

import (
	"cmp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bash evaluates the values in arithmetic once more: [[ $(./prog) -eq 42 ]] and (( n == 42 )) run what work has written that
// prints or is a[$(command)], as the verifier, and are true if it is n=42, or the name of a variable of the text. So the
// author's text is changed there: a value that can begin a command makes the arithmetic fail, or loses what begins it. So
// does one that a command has printed and that can be a name or an assignment.

// plainValues defines what guards use. After the # of a base letters are digits; of other letters a value has those of 0x1F
// alone, and no variable those, since any of them may be a name.
const plainValues = "__runs='[[$\x60]'; __harmless='[^[$\x60]'; __letterless='[^[$\x60=_a-zA-Z]'; __digits='[0-9a-zA-Z@_]'; " +
	`__plain() { printf %s "${*//$__runs/}"; }; __based() { [[ $* =~ ^[0-9a-zA-Z@_]*$ ]] && printf %s "$*" || printf 9z; }; ` +
	`__number() { [[ $* =~ ^[[:blank:]]*-?0[xX][0-9a-fA-F]+$ || -z ${*//$__letterless/} ]] && printf %s "$*" || printf 9z; }; ` +
	boundedWords + activation

// comparisons are the operators of [[ whose operands are arithmetic.
var comparisons = []syntax.BinTestOperator{
	syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr,
}

// matches are the operators of [[ whose right operand is a pattern.
var matches = []syntax.BinTestOperator{syntax.TsMatchShort, syntax.TsMatch, syntax.TsNoMatch}

// guards returns what is inserted into a text where it uses values of the work, in order for one offset.
func guards(file *syntax.File, text string) []prefix {
	a := arithmetic{outputs: outputsOf(file, text)}
	integers := integers(file)

	var all []prefix

	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ArithmCmd:
			all = append(all, a.guardsOf(n.X)...)
		case *syntax.ArithmExp:
			all = append(all, a.guardsOf(n.X)...)
		case *syntax.CStyleLoop:
			for _, x := range []syntax.ArithmExpr{n.Init, n.Cond, n.Post} {
				all = append(all, a.guardsOf(x)...)
			}
		case *syntax.Assign:
			if n.Name != nil && n.Value != nil && integers[n.Name.Value] {
				all = append(all, a.guardsOf(n.Value)...)
			}
		case *syntax.BinaryTest:
			switch {
			case slices.Contains(comparisons, n.Op):
				all = append(all, a.guardsOf(n.X)...)
				all = append(all, a.guardsOf(n.Y)...)
			case slices.Contains(matches, n.Op):
				all = append(all, a.quotes(n.Y)...)
			}
		case *syntax.CaseItem:
			for _, pattern := range n.Patterns {
				all = append(all, a.quotes(pattern)...)
			}
		case *syntax.CallExpr:
			all = append(all, guardOfTest(n)...)
			all = append(all, guardOfActivation(n, text)...)
		}

		return true
	})

	return all
}

// integers returns the variables of a text whose values bash evaluates when they are set: declare -i.
func integers(file *syntax.File) map[string]bool {
	all := map[string]bool{}

	syntax.Walk(file, func(n syntax.Node) bool {
		if declaration, ok := n.(*syntax.DeclClause); ok && slices.ContainsFunc(declaration.Args, isIntegerOption) {
			for _, arg := range declaration.Args {
				if arg.Name != nil {
					all[arg.Name.Value] = true
				}
			}
		}

		return true
	})

	return all
}

func isIntegerOption(arg *syntax.Assign) bool {
	return arg.Naked && arg.Value != nil && strings.HasPrefix(arg.Value.Lit(), "-") && strings.Contains(arg.Value.Lit(), "i")
}

// arithmetic has what guards of the expressions of one text depend on.
type arithmetic struct {
	outputs

	// it is a subscript, in which a guard may add nothing: a bare word may be a key
	subscript bool
}

// guardsOf returns what is inserted into one expression: guards of its variables before it, then those of what commands and
// operations on variables give.
func (a arithmetic) guardsOf(expression syntax.Node) []prefix {
	if expression == nil || !expression.Pos().IsValid() {
		return nil
	}

	var used variables

	values := a.collect(expression, &used)
	all := make([]prefix, 0, len(used.read)+len(values))

	slices.SortFunc(used.read, func(a, b variable) int { return cmp.Compare(a.name, b.name) })

	for _, v := range slices.Compact(used.read) {
		all = append(all, prefix{int(expression.Pos().Offset()), a.guardOf(v)})
	}

	return append(all, values...)
}

// guardOf is a text that makes arithmetic fail which it precedes if the variable has a value that may not be evaluated.
func (a arithmetic) guardOf(v variable) string {
	// of an array, some other element may be any text
	if bare, index, _ := strings.Cut(v.name, "["); a.subscript || index == "*]" || !a.names[bare] {
		return "${" + v.name + "//$__harmless/}"
	}

	allowed := "$__letterless"
	if v.based {
		allowed = "$__digits"
	}

	return "${" + v.name + ":+9${" + v.name + "//" + allowed + "/},}"
}

// variable is a variable in an expression.
type variable struct {
	name string

	// it follows the # of a base
	based bool
}

// variables are those of an expression.
type variables struct {
	// set by it
	assigned []string

	// read before
	read []variable
}

// add adds a variable that is read. One that the expression has set has a number, and may be unset before. A read of RANDOM
// changes what the next one gives.
func (v *variables) add(name string, based bool) {
	if name != "RANDOM" && !slices.Contains(v.assigned, name) {
		v.read = append(v.read, variable{name, based})
	}
}

// collect adds the variables of an expression, and returns the guards of what commands and operations on variables give.
func (a arithmetic) collect(expression syntax.Node, used *variables) []prefix {
	var values []prefix

	syntax.Walk(expression, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryArithm:
			if name, ok := n.X.(*syntax.Word); ok && n.Op == syntax.Assgn && name.Lit() != "" {
				values = append(values, a.collect(n.Y, used)...)
				used.assigned = append(used.assigned, name.Lit())

				return false
			}
		case *syntax.Lit:
			if syntax.ValidName(n.Value) {
				used.add(n.Value, false)
			}
		case *syntax.ParamExp:
			offset := int(n.Pos().Offset())

			switch {
			case a.text[offset] != '$':
				used.add(n.Param.Value+"["+elementOf(n.Index)+"]", false)

				values = append(values, a.guardsOfKeys(n.Index)...)
			case isNumber(n):
			case n.Excl || n.Index != nil || n.Slice != nil || n.Repl != nil || n.Exp != nil:
				values = append(values, guardsOfValue(n, a.functionOf(n))...)
			default:
				used.add(n.Param.Value, a.isBased(n))
			}

			return false
		case *syntax.CmdSubst:
			values = append(values, guardsOfValue(n, a.functionOf(n))...)
			return false
		case *syntax.ArithmExp:
			// a number, with guards of its own
			return false
		}

		return true
	})

	return values
}

// elementOf is the index of an element, if the text has its number; "*": all of them.
func elementOf(index syntax.ArithmExpr) string {
	if word, ok := index.(*syntax.Word); ok {
		if number := word.Lit(); number != "" && strings.Trim(number, "0123456789") == "" {
			return number
		}
	}

	return "*"
}

// functionOf is the function that guards what a command or an operation on a variable gives.
func (a arithmetic) functionOf(n syntax.Node) string {
	if a.subscript || !a.has(n) {
		return "__plain"
	}

	if a.isBased(n) {
		return "__based"
	}

	return "__number"
}

// isBased reports whether a value follows the # of a base, as in 16#$n.
func (a arithmetic) isBased(n syntax.Node) bool {
	at := int(n.Pos().Offset())
	return at > 0 && a.text[at-1] == '#'
}

// guardsOfKeys are those of a subscript.
func (a arithmetic) guardsOfKeys(index syntax.ArithmExpr) []prefix {
	word, ok := index.(*syntax.Word)
	if !ok || word.Lit() != "" {
		return nil
	}

	a.subscript = true

	return a.guardsOf(word)
}

// guardsOfValue let nothing pass that can begin a command.
func guardsOfValue(n syntax.Node, function string) []prefix {
	return []prefix{{int(n.Pos().Offset()), "$(" + function + ` "`}, {int(n.End().Offset()), `")`}}
}
