package files

import (
	"io"

	"golang.org/x/sys/unix"
)

// Unpack unpacks a tar into the folder, which becomes the only writable place.
func Unpack(folder string, limit int64, r io.Reader) error {
	return Places{folder}.Unpack(folder, limit, r, Names{})
}

// Restore makes the folder equal to a tar.
func Restore(folder string, limit int64, r io.Reader) error {
	return Places{folder}.Restore(folder, limit, r, Names{})
}

// Pack packs the folder.
func Pack(folder string, w io.Writer) error {
	s, err := Places{folder}.Open(folder, Names{})
	if err != nil {
		return err
	}
	defer s.Close()

	return s.Pack(w, 1<<30)
}

// Visit returns what a walk visits that may list at most the given number of names.
func Visit(folder string, most int) (visited []string, err error) {
	d, err := openDir(folder)
	if err != nil {
		return nil, err
	}
	defer d.close()

	w := &walker{budget: most, visit: func(_ *dir, _, rel string, _ *unix.Stat_t) error {
		visited = append(visited, rel)
		return nil
	}}

	return visited, w.tree(d, "", 0)
}

// Pack returns the name in the tar for one in the folder.
func (n Names) Pack(name string) string { return n.inTar(name) }

// Unpack returns the name in the folder for one in the tar.
func (n Names) Unpack(name string) string { return n.inFolder(name) }
