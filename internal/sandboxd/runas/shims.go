package runas

import (
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Shims is the first folder in the PATH of the verifier's processes. It has a link to this program for
// every other program of their PATH, except those that stay with the verifier anyway. So every program that
// a shell, a wrapper such as timeout, or a check starts by its name is dispatched.
const Shims = "/verifier/bin"

// PythonHooks is a folder in the search path of the verifier's Python, whose module starts programs that a
// check names by a path.
const PythonHooks = Shims + "/.python"

//go:embed sitecustomize.py
var pythonHook []byte

// RunHere is the program that dispatches its arguments: for programs that a command names by a path.
const RunHere = "run-here"

// Program is this program's path in a sandbox.
const Program = "/opt/rolloutd/bin/" + Name

// MakeShims fills Shims for the programs of that PATH. The folder is missing in a sandbox that grades nothing.
func MakeShims(path string) error {
	if err := os.Mkdir(Shims, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}

	// an image may have a run-as-agent of its own
	names := map[string]bool{RunHere: true, Name: true}

	for folder := range strings.SplitSeq(path, ":") {
		// a PATH may name folders that do not exist
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			names[e.Name()] = true
		}
	}

	for name := range names {
		if IsTool(name) {
			continue
		}

		if err := os.Symlink(Program, filepath.Join(Shims, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}

	return makePythonHook()
}

func makePythonHook() error {
	if err := os.Mkdir(PythonHooks, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}

	return os.WriteFile(filepath.Join(PythonHooks, "sitecustomize.py"), pythonHook, 0o644)
}

// IsShim reports whether this program was started by a name of Shims, or by a link that leads there.
func IsShim(program string) bool {
	to, err := os.Readlink(filepath.Join(Shims, filepath.Base(program)))
	if err == nil && to == Program {
		return true
	}

	_, shim := linkToShim(program)

	return shim != ""
}
