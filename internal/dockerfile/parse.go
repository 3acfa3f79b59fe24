package dockerfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Bounds of a Dockerfile.
const (
	maxBytes = 1 << 20

	// bound of the instructions of all stages
	maxInstructions = 2000
)

// file is a parsed Dockerfile with supported instructions only.
type file struct {
	// name with which errors begin
	name   string
	stages []instructions.Stage

	// ARG before the first FROM
	global []instructions.ArgCommand
	lex    *shell.Lex
}

// Check reports whether Build supports the Dockerfile in a folder. The error is a fault.Invalid with the line.
func Check(folder, name string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fault.Wrap(fault.NotFound, err, "build")
	}
	defer root.Close()

	_, err = read(root, name)

	return err
}

func read(root *os.Root, name string) (*file, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "build")
	}
	defer f.Close()

	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, fault.New(fault.Invalid, "%s: must be a file", name)
	}

	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "%s", name)
	}

	return parse(name, data)
}

// parse reads a Dockerfile and refuses what Build does not support.
func parse(name string, data []byte) (*file, error) {
	if len(data) > maxBytes {
		return nil, fault.New(fault.Invalid, "%s: must have at most %d bytes", name, maxBytes)
	}

	tree, err := parser.Parse(bytes.NewReader(data))
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: %v", name, err)
	}

	f := &file{name: name, lex: shell.NewLex(tree.EscapeToken)}

	f.stages, f.global, err = instructions.Parse(tree.AST, nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: %v", name, err)
	}

	if len(f.stages) == 0 {
		return nil, fault.New(fault.Invalid, "%s: must have a FROM", name)
	}

	count := 0

	for _, s := range f.stages {
		for _, c := range s.Commands {
			if count++; count > maxInstructions {
				return nil, fault.New(fault.Invalid, "%s: must have at most %d instructions", name, maxInstructions)
			}

			if what := unsupported(c); what != "" {
				return nil, f.refuse(c.Location(), "%s is not supported", what)
			}
		}
	}

	return f, nil
}

// refuse returns an error about the instruction at a place.
func (f *file) refuse(at []parser.Range, format string, args ...any) error {
	return f.wrap(at, fault.New(fault.Invalid, format, args...))
}

// wrap adds the line of an instruction to an error, whose kind it keeps.
func (f *file) wrap(at []parser.Range, err error) error {
	if err == nil {
		return nil
	}

	line := 0
	if len(at) > 0 {
		line = at[0].Start.Line
	}

	kind := fault.KindOf(err)
	if kind == fault.Internal {
		kind = fault.Invalid
	}

	return fault.Wrap(kind, err, "%s:%d", f.name, line)
}

// unsupported names what Build does not support of an instruction; "": nothing.
func unsupported(c instructions.Command) string {
	switch c := c.(type) {
	case *instructions.OnbuildCommand:
		return "ONBUILD"
	case *instructions.CopyCommand:
		switch {
		case c.Parents:
			return "COPY --parents"
		case len(c.ExcludePatterns) > 0:
			return "COPY --exclude"
		case !octal(c.Chmod):
			return "--chmod=" + c.Chmod + " (use octal digits)"
		}
	case *instructions.AddCommand:
		return unsupportedAdd(c)
	case *instructions.RunCommand:
		return unsupportedRun(c)
	}

	return ""
}

func unsupportedAdd(c *instructions.AddCommand) string {
	for _, source := range c.SourcePaths {
		if strings.Contains(source, "://") || strings.HasPrefix(source, "git@") {
			return fmt.Sprintf("ADD of %.200q (fetch it in a RUN)", source)
		}
	}

	switch {
	case len(c.ExcludePatterns) > 0:
		return "ADD --exclude"
	case c.Unpack != nil:
		return "ADD --unpack"
	case !octal(c.Chmod):
		return "--chmod=" + c.Chmod + " (use octal digits)"
	}

	return ""
}

func unsupportedRun(c *instructions.RunCommand) string {
	// without an expander a mount has the text of its fields
	if err := c.Expand(func(word string) (string, error) { return word, nil }); err != nil {
		return "this RUN (" + err.Error() + ")"
	}

	for _, m := range instructions.GetMounts(c) {
		switch m.Type {
		case instructions.MountTypeBind, instructions.MountTypeCache, instructions.MountTypeTmpfs:
		default:
			return "RUN --mount=type=" + string(m.Type)
		}
	}

	switch {
	case instructions.GetNetwork(c) == instructions.NetworkHost:
		return "RUN --network=host"
	case instructions.GetSecurity(c) == instructions.SecurityInsecure:
		return "RUN --security=insecure"
	case len(instructions.GetDevices(c)) > 0:
		return "RUN --device"
	}

	return ""
}

// octal reports whether a mode is octal digits, a variable, or missing.
func octal(mode string) bool {
	return strings.Trim(mode, "01234567") == "" || strings.Contains(mode, "$")
}
