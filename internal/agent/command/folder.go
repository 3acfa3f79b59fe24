package command

import (
	"io/fs"
	"os"
	"path"
)

// makeReadable lets every user read dir and its contents, regardless of the umask: sandboxes run as other users.
func makeReadable(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}

		info, err := d.Info()
		if err != nil {
			return err
		}

		mode := info.Mode().Perm() | 0o444
		if d.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}

		return root.Chmod(path, mode)
	})
}

// withoutComplete hides the complete file at the root of a folder.
type withoutComplete struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (f withoutComplete) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(f.FS, name)

	kept := all[:0]
	for _, e := range all {
		if path.Join(name, e.Name()) != completeFile {
			kept = append(kept, e)
		}
	}

	return kept, err
}

// ReadLink implements fs.ReadLinkFS.
func (f withoutComplete) ReadLink(name string) (string, error) { return fs.ReadLink(f.FS, name) }

// Lstat implements fs.ReadLinkFS.
func (f withoutComplete) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.FS, name) }
