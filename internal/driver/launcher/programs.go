package launcher

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// maxSearched bounds the files that HoldsPrograms looks at.
const maxSearched = 20_000

// HoldsPrograms reports whether a folder of the root file system at root has something that a program of the
// system may run or load: an executable file, a library, a module of an interpreted language, or a link,
// whose target may be one. So does a folder with too many files, and a path that is no folder. A missing
// folder has none.
func HoldsPrograms(root, folder string) (bool, error) {
	at, err := os.OpenRoot(root)
	if err != nil {
		return false, err
	}
	defer at.Close()

	name := strings.Trim(folder, "/")

	err = foldersOnly(at, name)
	if err == nil {
		err = search(at.FS(), name)
	}

	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, errProgram) || errors.Is(err, errNoFolder):
		return true, nil
	default:
		return false, err
	}
}

// errProgram ends a search: there is a program, or there may be one.
var errProgram = errors.New("a program")

// search returns errProgram if a file below the folder may be a program.
func search(files fs.FS, folder string) error {
	seen := 0

	return fs.WalkDir(files, folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		seen++

		program, err := mayRun(entry)
		if program || seen > maxSearched {
			return errProgram
		}

		return err
	})
}

func mayRun(entry fs.DirEntry) (bool, error) {
	if entry.IsDir() {
		return false, nil
	}

	if !entry.Type().IsRegular() || isModule(entry.Name()) {
		return true, nil
	}

	info, err := entry.Info()

	return err == nil && info.Mode()&0o111 != 0, err
}

// isModule reports whether the name is one of a library or of a module.
func isModule(name string) bool {
	return strings.Contains(name, ".so.") || slices.Contains([]string{
		".so", ".py", ".pyc", ".pth", ".js", ".mjs", ".cjs", ".node", ".jar", ".class", ".rb", ".pl", ".pm", ".lua", ".php",
	}, path.Ext(name))
}
