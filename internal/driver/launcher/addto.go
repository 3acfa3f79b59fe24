package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Account is a line of /etc/passwd or /etc/group.
type Account struct {
	Name string `json:"name"`
	ID   int    `json:"id"`

	// the rest of the line after the id, with its colon
	Rest string `json:"rest"`
}

// maxAccounts bounds a file of accounts, in bytes.
const maxAccounts = 1 << 20

// AddTo adds the sandbox's files to the root file system at a path. It follows no path out of the image,
// which may hold any links.
func (o Overlay) AddTo(at string) error {
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer root.Close()

	for _, part := range []struct {
		paths iter.Seq[string]
		add   func(p string) error
	}{
		{slices.Values(o.Points), func(p string) error { return o.folder(root, p) }},
		{slices.Values(o.Shared), func(p string) error { return share(root, p) }},
		{slices.Values(o.Folders), func(p string) error { return o.ownFolder(root, p) }},
		{maps.Keys(o.Instead), func(p string) error { return o.replace(root, p, o.Instead[p]) }},
		{maps.Keys(o.Links), func(p string) error { return o.link(root, p, o.Links[p]) }},
		{o.foreign(root), func(p string) error { return o.link(root, p, o.Foreign[p]) }},
		{maps.Keys(o.Files), func(p string) error { return o.write(root, p, o.Files[p]) }},
		{maps.Keys(o.Accounts), func(p string) error { return o.addAccounts(root, p, o.Accounts[p]) }},
	} {
		for p := range part.paths {
			if err := part.add(p); err != nil {
				return fmt.Errorf("%s of the image: %w", p, err)
			}
		}
	}

	return nil
}

// foreign yields the paths of the Foreign links, if the image is then without the file Unless.
func (o Overlay) foreign(root *os.Root) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !exists(root, o.Unless) {
			maps.Keys(o.Foreign)(yield)
		}
	}
}

// exists reports whether the image has something at a path. A link out of the root folder counts.
func exists(root *os.Root, p string) bool {
	_, err := root.Stat(strings.Trim(p, "/"))
	return !errors.Is(err, fs.ErrNotExist)
}

var errNoFolder = errors.New("not a folder")

// foldersOnly requires that all existing parts of the path are folders.
func foldersOnly(root *os.Root, p string) error {
	at := ""
	for part := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		at = path.Join(at, part)

		st, err := root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}

		if err != nil {
			return err
		}

		if !st.IsDir() {
			return fmt.Errorf("/%s is %s, %w; name the folder itself", at, st.Mode().Type(), errNoFolder)
		}
	}

	return nil
}

// ownFolder makes p and the folders above it. It refuses an image in which one of them is not a folder.
func (o Overlay) ownFolder(root *os.Root, p string) error {
	if err := foldersOnly(root, p); err != nil {
		return err
	}

	return o.folder(root, p)
}

// share lets every user make files in a folder.
func share(root *os.Root, p string) error {
	return root.Chmod(strings.Trim(p, "/"), fs.ModeSticky|0o777)
}

// folder makes p and the folders above it real folders.
func (o Overlay) folder(root *os.Root, p string) error {
	at := ""
	for part := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		at = path.Join(at, part)

		st, err := root.Lstat(at)
		if err == nil && st.IsDir() {
			// the sandbox's users must be able to enter it
			if err := root.Chmod(at, st.Mode()&(fs.ModePerm|fs.ModeSticky)|0o555); err != nil {
				return err
			}

			continue
		}

		if err == nil {
			err = root.Remove(at)
		}

		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}

		if err := root.Mkdir(at, 0o755); err != nil {
			return err
		}

		if err := o.ownIn(root, at); err != nil {
			return err
		}
	}

	return nil
}

// replace makes a link in place of whatever the image has there. In an image whose folder is a link out of it, nothing is
// replaced.
func (o Overlay) replace(root *os.Root, p, target string) error {
	if err := root.RemoveAll(strings.Trim(p, "/")); err != nil {
		return nil //nolint:nilerr // as in link
	}

	return o.link(root, p, target)
}

// link makes a link unless the image has something there. It makes a missing folder, and follows a folder that is a link
// within the image.
func (o Overlay) link(root *os.Root, p, target string) error {
	name := strings.Trim(p, "/")
	if _, err := root.Lstat(name); err == nil {
		return nil
	}

	if _, err := root.Stat(path.Dir(name)); errors.Is(err, fs.ErrNotExist) {
		if err := o.folder(root, path.Dir(name)); err != nil {
			return err
		}
	}

	if err := root.Symlink(target, name); err != nil {
		return nil //nolint:nilerr // the folder is a link out of the image: this image goes without
	}

	return o.ownIn(root, name)
}

// write replaces a file.
func (o Overlay) write(root *os.Root, p, text string) error {
	name := strings.Trim(p, "/")
	if err := o.folder(root, path.Dir(name)); err != nil {
		return err
	}

	if err := root.RemoveAll(name); err != nil {
		return err
	}

	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}

	_, err = f.WriteString(text)

	return errors.Join(err, f.Chmod(0o644), f.Close(), o.ownIn(root, name))
}

// addAccounts adds the accounts whose name and id are not in the image.
func (o Overlay) addAccounts(root *os.Root, p string, accounts []Account) error {
	text := readSmall(root, strings.Trim(p, "/"))
	for _, a := range accounts {
		if !hasAccount(text, a) {
			if text != "" && !strings.HasSuffix(text, "\n") {
				text += "\n"
			}

			text += a.Name + ":x:" + strconv.Itoa(a.ID) + a.Rest + "\n"
		}
	}

	return o.write(root, p, text)
}

func hasAccount(text string, a Account) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
		fields := strings.SplitN(line, ":", 4)
		return len(fields) > 2 && (fields[0] == a.Name || fields[2] == strconv.Itoa(a.ID))
	})
}

// readSmall reads a regular file; "": none, or too long.
func readSmall(root *os.Root, name string) string {
	st, err := root.Lstat(name)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxAccounts {
		return ""
	}

	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()

	data, err := io.ReadAll(io.LimitReader(f, maxAccounts))
	if err != nil {
		return ""
	}

	return string(data)
}

func (o Overlay) ownIn(root *os.Root, name string) error {
	if o.Base == 0 {
		return nil
	}

	return root.Lchown(name, o.Base, o.Base)
}
