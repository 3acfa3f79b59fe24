package taskset

import (
	"maps"
	"path"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// workdirIn is the workdir of the image that a Dockerfile gives, as far as the file alone says; "": it is that of the image
// with which it begins, or unknown. What a builder would refuse is unknown: the build says why.
func workdirIn(text string) string {
	tree, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		return ""
	}

	r := workdirReader{lex: shell.NewLex(tree.EscapeToken), global: map[string]string{}, named: map[string]workdirStage{}}

	stages, args, err := instructions.Parse(tree.AST, nil)
	if err != nil {
		return ""
	}

	for _, arg := range args {
		r.arg(r.global, arg, r.global)
	}

	var last workdirStage

	for _, s := range stages {
		last = r.stage(s)
		r.named[strings.ToLower(s.Name)] = last
	}

	return last.workdir
}

// workdirReader reads the stages of a Dockerfile in their order.
type workdirReader struct {
	lex *shell.Lex

	// variables before the first FROM
	global map[string]string

	// stages by name, in small letters
	named map[string]workdirStage
}

// workdirStage is what of a stage decides about its workdir.
type workdirStage struct {
	env     map[string]string
	workdir string
}

func (r workdirReader) stage(given instructions.Stage) workdirStage {
	base, _ := r.known(given.BaseName, r.global)
	before := r.named[strings.ToLower(base)]
	s := workdirStage{env: maps.Clone(before.env), workdir: before.workdir}
	args := map[string]string{}

	if base == "" || s.env == nil {
		s.env = map[string]string{}
	}

	// ENV takes precedence
	variables := func() map[string]string {
		all := maps.Clone(args)
		maps.Copy(all, s.env)

		return all
	}

	for _, c := range given.Commands {
		switch c := c.(type) {
		case *instructions.ArgCommand:
			r.arg(args, *c, variables())
		case *instructions.EnvCommand:
			before := variables()

			for _, kv := range c.Env {
				delete(s.env, kv.Key)

				if value, ok := r.known(kv.Value, before); ok {
					s.env[kv.Key] = value
				}
			}
		case *instructions.WorkdirCommand:
			s.enter(r.known(c.Path, variables()))
		}
	}

	return s
}

// enter changes the workdir to a path, which may be relative to it. One that is not known is left out.
func (s *workdirStage) enter(to string, known bool) {
	switch {
	case !known:
	case path.IsAbs(to):
		s.workdir = path.Clean(to)
	case s.workdir != "":
		s.workdir = path.Join(s.workdir, to)
	}
}

// arg adds the variables of an ARG: those before the first FROM, or their defaults.
func (r workdirReader) arg(args map[string]string, c instructions.ArgCommand, variables map[string]string) {
	for _, kv := range c.Args {
		if kv.Value == nil {
			if value, ok := r.global[kv.Key]; ok {
				args[kv.Key] = value
			}

			continue
		}

		if value, ok := r.known(*kv.Value, variables); ok {
			args[kv.Key] = value
		}
	}
}

// known replaces the variables in a word; false: one of them is not known.
func (r workdirReader) known(word string, variables map[string]string) (string, bool) {
	all := make([]string, 0, len(variables))
	for name, value := range variables {
		all = append(all, name+"="+value)
	}

	found, err := r.lex.ProcessWordWithMatches(word, shell.EnvsFromSlice(all))

	return found.Result, err == nil && len(found.Unmatched) == 0
}
