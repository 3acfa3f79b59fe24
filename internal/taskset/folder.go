package taskset

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// harborFile is the file that makes a folder a Harbor task.
const harborFile = "task.toml"

// openFolder finds the tasks below a folder. A dataset of Harbor has them in its folder tasks.
func (s *Set) openFolder() error {
	folder := s.path
	if st, err := os.Stat(filepath.Join(folder, "tasks")); err == nil && st.IsDir() {
		folder = filepath.Join(folder, "tasks")
	}

	root, err := os.OpenRoot(folder)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "task set")
	}

	s.close = root.Close
	f := finder{set: s, files: root.FS(), folder: folder}

	return fs.WalkDir(f.files, ".", f.visit)
}

// finder adds the tasks in a folder to a set.
type finder struct {
	set *Set

	// no link leads out of it
	files  fs.FS
	folder string
	seen   int
}

func (f *finder) visit(name string, d fs.DirEntry, err error) error {
	switch f.seen++; {
	case err != nil:
		return fault.Wrap(fault.Invalid, err, "task set %s", f.folder)
	case f.seen > maxEntries:
		return fault.New(fault.Invalid, "task set %s has more than %d files", f.folder, maxEntries)
	case name != "." && strings.HasPrefix(d.Name(), "."):
		return skip(d)
	case d.IsDir():
		return f.directory(name)
	}

	kind := path.Ext(name)
	if kind != ".yaml" && kind != ".yml" {
		return nil
	}

	if err := f.set.full(); err != nil {
		return err
	}

	source := filepath.Join(f.folder, filepath.FromSlash(name))
	f.set.addTask(item{
		name:   strings.TrimSuffix(name, kind),
		source: source,
		read:   func() (Task, error) { return readYAMLIn(f.files, name, source) },
	})

	return nil
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}

	return nil
}

// errTerminalBench refuses a folder in the form that Harbor's tasks had before.
var errTerminalBench = fault.New(fault.Invalid,
	"is a task in the form of Terminal-Bench 1 (task.yaml, run-tests.sh): make a Harbor task of it: harbor task migrate -i FOLDER -o NEW",
)

// directory adds a Harbor task, or one of the form before; any other folder is searched.
func (f *finder) directory(name string) error {
	if strings.Count(name, "/") >= maxDepth {
		return fs.SkipDir
	}

	isHarbor := f.has(name, harborFile)
	if !isHarbor && !(f.has(name, "task.yaml") && f.has(name, "run-tests.sh")) {
		return nil
	}

	if err := f.set.full(); err != nil {
		return err
	}

	source := filepath.Join(f.folder, filepath.FromSlash(name))

	task, err := fs.Sub(f.files, name)
	if err == nil && !isHarbor {
		err = at(source, errTerminalBench)
	}

	if name == "." {
		name = filepath.Base(filepath.Clean(f.folder))
	}

	f.set.addTask(item{
		name:   name,
		source: source,
		err:    err,
		read:   func() (Task, error) { return readHarbor(task, source) },
	})

	return fs.SkipDir
}

// has reports whether a folder has a file.
func (f *finder) has(folder, file string) bool {
	_, err := fs.Stat(f.files, path.Join(folder, file))
	return err == nil
}

func readYAMLIn(files fs.FS, name, source string) (Task, error) {
	text, err := readFile(files, name, maxSize)
	if err != nil {
		return Task{}, at(source, err)
	}

	t, err := ReadYAML(strings.NewReader(text))
	if err != nil {
		return Task{}, at(source, err)
	}

	return t, nil
}

// checkRegular refuses a pipe or a device before it is opened: reading it may never end.
func checkRegular(st fs.FileInfo, err error) error {
	if err == nil && !st.Mode().IsRegular() {
		err = fault.New(fault.Invalid, "must be a regular file, got %s", st.Mode().Type())
	}

	return err
}

// readFile reads a regular file of at most limit bytes.
func readFile(files fs.FS, name string, limit int64) (string, error) {
	st, err := fs.Stat(files, name)
	if err := checkRegular(st, err); err != nil {
		return "", err
	}

	if st.Size() > limit {
		return "", fault.New(fault.Invalid, "must be at most %d bytes, got %d", limit, st.Size())
	}

	f, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fault.New(fault.Invalid, "must be at most %d bytes", limit)
	}

	return string(text), err
}
