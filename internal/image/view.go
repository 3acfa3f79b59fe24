package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the symbolic links of one path, as the kernel does.
const maxLinks = 40

// Resolve follows the symbolic links of a path within the image. The result has no leading slash; "." is the
// root. What a missing part would contain is taken as it is.
func (u *Use) Resolve(p string) (string, error) {
	at, links := ".", 0

	for rest := strings.Split(p, "/"); len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]

		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}

		next := path.Join(at, part)

		e, err := u.find(next)
		if err != nil {
			return "", err
		}

		if e.layer == "" || e.mode&fs.ModeSymlink == 0 {
			at = next
			continue
		}

		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: p, Err: unix.ELOOP}
		}

		target, err := u.readlink(e)
		if err != nil {
			return "", err
		}

		if path.IsAbs(target) {
			at = "."
		}

		rest = append(strings.Split(target, "/"), rest...)
	}

	return at, nil
}

func (u *Use) readlink(e entry) (string, error) {
	root, err := os.OpenRoot(e.layer)
	if err != nil {
		return "", err
	}
	defer root.Close()

	return root.Readlink(e.name)
}

// Lstat describes a file of the image by a path that Resolve returned, or one below such a folder. The error is
// an fs.ErrNotExist if there is none.
func (u *Use) Lstat(name string) (fs.FileInfo, error) {
	if name == "." {
		return u.statRoot()
	}

	e, err := u.findEntry(name)
	if err != nil {
		return nil, err
	}

	root, err := os.OpenRoot(e.layer)
	if err != nil {
		return nil, err
	}
	defer root.Close()

	return root.Lstat(e.name)
}

func (u *Use) statRoot() (fs.FileInfo, error) {
	if len(u.Layers) == 0 {
		return nil, notExist(".")
	}

	return os.Stat(u.Layers[len(u.Layers)-1])
}

// Readlink returns the target of a link.
func (u *Use) Readlink(name string) (string, error) {
	e, err := u.findEntry(name)
	if err != nil {
		return "", err
	}

	return u.readlink(e)
}

// Open opens a regular file.
func (u *Use) Open(name string) (*os.File, error) {
	e, err := u.findEntry(name)
	if err != nil {
		return nil, err
	}

	if !e.mode.IsRegular() {
		return nil, fmt.Errorf("/%s of the image is not a regular file", name)
	}

	root, err := os.OpenRoot(e.layer)
	if err != nil {
		return nil, err
	}
	defer root.Close()

	return root.OpenFile(e.name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

func (u *Use) findEntry(name string) (entry, error) {
	e, err := u.find(name)
	if err == nil && e.layer == "" {
		err = notExist(name)
	}

	return e, err
}

func notExist(name string) error {
	return &fs.PathError{Op: "open", Path: "/" + strings.TrimPrefix(name, "."), Err: fs.ErrNotExist}
}

// ReadDir lists a folder of the image, in the order of names.
func (u *Use) ReadDir(name string) ([]string, error) {
	var names []string

	seen, exists := map[string]bool{}, name == "."

	for n := len(u.Layers) - 1; n >= 0; n-- {
		if name != "." {
			mode, next, err := lookIn(u.Layers[n], name)
			if err != nil {
				return nil, err
			}

			if mode == nil && next {
				continue
			}

			if mode == nil || !mode.IsDir() {
				break
			}

			exists = true
		}

		entries, opaque, err := listLayer(u.Layers[n], name)
		if err != nil {
			return nil, err
		}

		for _, e := range entries {
			// a whiteout hides the name in the layers below
			if !seen[e.Name()] && e.Type()&fs.ModeCharDevice == 0 {
				names = append(names, e.Name())
			}

			seen[e.Name()] = true
		}

		if opaque {
			break
		}
	}

	if !exists {
		return nil, notExist(name)
	}

	slices.Sort(names)

	return names, nil
}

// listLayer lists a folder of one layer, and reports whether it hides those of the layers below.
func listLayer(layer, name string) (entries []fs.DirEntry, opaque bool, err error) {
	root, err := os.OpenRoot(layer)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()

	for at := name; at != "." && !opaque; at = path.Dir(at) {
		if opaque, err = isOpaque(root, at); err != nil {
			return nil, false, err
		}
	}

	dir, err := root.Open(name)
	if err != nil {
		return nil, false, err
	}

	entries, err = dir.ReadDir(-1)

	return entries, opaque, errors.Join(err, dir.Close())
}
