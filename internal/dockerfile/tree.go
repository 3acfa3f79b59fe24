package dockerfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// tree has the files that an instruction copies. Paths have no leading slash; "." is the root.
type tree interface {
	// resolve follows links; the other methods take its result, or a path below it.
	resolve(name string) (string, error)
	lstat(name string) (fs.FileInfo, error)
	readDir(name string) ([]string, error)
	readlink(name string) (string, error)
	open(name string) (io.ReadCloser, error)
	owner(info fs.FileInfo) (uid, gid int)
	// excludes says that a path is left out, and for a folder whether all below it is.
	excludes(name string) (out, all bool, err error)
}

// buildContext is the folder of a build. Its files belong to root of the image.
type buildContext struct {
	root   *os.Root
	ignore *patternmatcher.PatternMatcher
}

// maxIgnore bounds a .dockerignore, in bytes.
const maxIgnore = 1 << 20

func openContext(root *os.Root, dockerfile string) (*buildContext, error) {
	c := &buildContext{root: root}

	for _, name := range []string{dockerfile + ".dockerignore", ".dockerignore"} {
		f, err := root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "build")
		}

		patterns, err := ignorefile.ReadAll(io.LimitReader(f, maxIgnore))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "%s", name)
		}

		c.ignore, err = patternmatcher.New(patterns)

		return c, fault.Wrap(fault.Invalid, err, "%s", name)
	}

	return c, nil
}

func (c *buildContext) resolve(name string) (string, error) {
	_, err := c.root.Stat(name)
	return name, err
}

func (c *buildContext) lstat(name string) (fs.FileInfo, error) { return c.root.Lstat(name) }

func (c *buildContext) readlink(name string) (string, error) { return c.root.Readlink(name) }

func (c *buildContext) open(name string) (io.ReadCloser, error) {
	// a FIFO would block
	return c.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func (c *buildContext) owner(fs.FileInfo) (uid, gid int) { return 0, 0 }

func (c *buildContext) readDir(name string) ([]string, error) {
	dir, err := c.root.Open(name)
	if err != nil {
		return nil, err
	}

	names, err := dir.Readdirnames(-1)
	slices.Sort(names)

	return names, errors.Join(err, dir.Close())
}

func (c *buildContext) excludes(name string) (out, all bool, err error) {
	if c.ignore == nil || name == "." {
		return false, false, nil
	}

	out, err = c.ignore.MatchesOrParentMatches(name)

	return out, out && !c.ignore.Exclusions(), err
}

// imageTree is an image, or a stage so far.
type imageTree struct {
	*image.Use

	// its files have the owners of the image
	owners bool
}

func (t imageTree) resolve(name string) (string, error) {
	name, err := t.Resolve(name)
	if err == nil {
		_, err = t.Lstat(name)
	}

	return name, err
}

func (t imageTree) lstat(name string) (fs.FileInfo, error)     { return t.Lstat(name) }
func (t imageTree) readDir(name string) ([]string, error)      { return t.ReadDir(name) }
func (t imageTree) readlink(name string) (string, error)       { return t.Readlink(name) }
func (t imageTree) open(name string) (io.ReadCloser, error)    { return t.Open(name) }
func (t imageTree) excludes(string) (out, all bool, err error) { return false, false, nil }

func (t imageTree) owner(info fs.FileInfo) (uid, gid int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && t.owners {
		return int(st.Uid), int(st.Gid)
	}

	return 0, 0
}

// item is a source of a copy: a file, or a folder whose content is copied.
type item struct {
	from tree

	// path within from
	path string

	// name that it gets in a folder
	name string
	info fs.FileInfo
}

// findAll returns the items of source paths.
func findAll(from tree, sources []string) ([]item, error) {
	var all []item

	for _, source := range sources {
		items, err := find(from, source)
		if err != nil {
			return nil, err
		}

		all = append(all, items...)
	}

	return all, nil
}

// find returns the items of a source path. One with wildcards may match nothing, as in engines: COPY a.txt b*.txt takes an
// optional file.
func find(from tree, source string) ([]item, error) {
	clean := path.Join("/", source)[1:]
	for part := range strings.SplitSeq(source, "/") {
		if part == ".." {
			return nil, fault.New(fault.Invalid, "%q leads out of the files that can be copied", source)
		}
	}

	if clean == "" {
		clean = "."
	}

	names := []string{clean}

	wild := strings.ContainsAny(clean, `*?[\`)
	if wild {
		var err error
		if names, err = glob(from, strings.Split(clean, "/"), "."); err != nil {
			return nil, err
		}
	}

	var items []item

	for _, name := range names {
		i, err := itemOf(from, name)
		if err != nil {
			return nil, err
		}

		if out, all, err := from.excludes(name); err != nil || out && (all || !i.info.IsDir()) {
			if wild && err == nil {
				continue
			}

			return nil, errors.Join(err, fault.New(fault.Invalid, "%q is excluded by .dockerignore", source))
		}

		items = append(items, i)
	}

	return items, nil
}

func itemOf(from tree, name string) (item, error) {
	at, err := from.resolve(name)
	if errors.Is(err, fs.ErrNotExist) {
		return item{}, fault.New(fault.Invalid, "%q does not exist", name)
	}

	if err != nil {
		return item{}, fault.New(fault.Invalid, "%q cannot be copied: %v", name, err)
	}

	i := item{from: from, path: at, name: path.Base(name)}

	if c, ok := from.(*buildContext); ok {
		i.info, err = c.root.Stat(at)
	} else {
		i.info, err = from.lstat(at)
	}

	return i, err
}

// glob returns the paths below dir that match the parts of a pattern.
func glob(from tree, parts []string, dir string) ([]string, error) {
	if len(parts) == 0 {
		return []string{dir}, nil
	}

	at, err := from.resolve(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // a link that leads nowhere matches nothing
	}

	names, err := from.readDir(at)
	if err != nil {
		return nil, nil //nolint:nilerr // a file has no files below it
	}

	var found []string

	for _, name := range names {
		ok, err := path.Match(parts[0], name)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "pattern %q", parts[0])
		}

		if !ok {
			continue
		}

		more, err := glob(from, parts[1:], path.Join(dir, name))
		if err != nil {
			return nil, err
		}

		found = append(found, more...)
	}

	return found, nil
}

// walk calls visit for the item and all below it, folders before their content. rel is the path below the item; ".":
// the item itself.
func (i item) walk(visit func(rel, name string, info fs.FileInfo) error) error {
	return i.walkFrom(".", i.info, visit, 0)
}

// maxDepth bounds folders within each other, as in the layers of an image.
const maxDepth = 100

func (i item) walkFrom(rel string, info fs.FileInfo, visit func(string, string, fs.FileInfo) error, depth int) error {
	name := path.Join(i.path, rel)

	out, all, err := i.from.excludes(name)
	if err != nil || all {
		return err
	}

	if !out {
		if err := visit(rel, name, info); err != nil {
			return err
		}
	}

	if !info.IsDir() {
		return nil
	}

	if depth > maxDepth {
		return fault.New(fault.Invalid, "%s: lies deeper than %d folders", name, maxDepth)
	}

	names, err := i.from.readDir(name)
	if err != nil {
		return err
	}

	for _, child := range names {
		info, err := i.from.lstat(path.Join(name, child))
		if err == nil {
			err = i.walkFrom(path.Join(rel, child), info, visit, depth+1)
		}

		if err != nil {
			return err
		}
	}

	return nil
}
