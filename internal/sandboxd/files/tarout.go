package files

import (
	"archive/tar"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
)

// Source is the source of a tar: a directory's contents, or one file.
type Source struct {
	path string
	dir  *dir

	// file in dir; "": all of it
	file  string
	names Names
	more  []added

	// entry of dir for which one of more stands; "": none
	replaced string
}

// added is a further folder of a tar, and its name there.
type added struct {
	name string
	dir  *dir
}

// Open opens a directory or a regular file to be packed.
func (p Places) Open(path string, names Names) (*Source, error) {
	s, err := p.openSource(path)
	if err == nil {
		s.names = names
	}

	return s, fault.Wrap(reply.Kind(err), err, "tar %q", path)
}

func (p Places) openSource(path string) (*Source, error) {
	if d, err := p.dir(path, false); err == nil {
		return &Source{path: path, dir: d}, nil
	}

	d, name, err := p.parent(path, false)
	if err != nil {
		return nil, err
	}

	st, err := d.stat(name)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = fault.New(fault.Invalid, "neither a directory nor a regular file")
	}

	if err != nil {
		d.close()
		return nil, err
	}

	return &Source{path: path, dir: d, file: name}, nil
}

// Add adds a folder, under a name of the tar. Its path has no links, whoever may write there.
func (s *Source) Add(name, folder string) error {
	d, err := Places{"/"}.dir(folder, false)
	if err != nil {
		return fault.Wrap(reply.Kind(err), err, "tar %q", folder)
	}

	s.more = append(s.more, added{name, d})

	return nil
}

// Replace packs a folder for the entry of that name in the source, if it is another one. One that is none, or that a link
// leads to, replaces nothing.
func (s *Source) Replace(name, folder string) {
	d, err := Places{"/"}.dir(folder, false)
	if err != nil {
		return
	}

	now, err := d.stat(".")
	old, oldErr := s.dir.stat(name)

	if err != nil || oldErr == nil && now.Dev == old.Dev && now.Ino == old.Ino {
		d.close()
		return
	}

	s.more, s.replaced = append(s.more, added{name, d}), name
}

// Measure returns an error if the tree exceeds a bound of a tar; limit bounds the bytes of its files. It
// comes before Pack: once bytes have been sent, an error can only abort the stream.
func (s *Source) Measure(limit int64) error {
	err := s.each(newMeter(limit).visit)
	return fault.Wrap(reply.Kind(err), err, "tar %q", s.path)
}

// Pack writes the tree as a tar, within the bounds of Measure.
func (s *Source) Pack(w io.Writer, limit int64) error {
	p := &packer{w: tar.NewWriter(w), meter: newMeter(limit)}
	if err := s.each(p.visit); err != nil {
		return err
	}

	return p.w.Close()
}

// Close frees the directories.
func (s *Source) Close() {
	s.dir.close()

	for _, m := range s.more {
		m.dir.close()
	}
}

func (s *Source) each(v visit) error {
	w := newWalker(v)
	if s.file != "" {
		return w.one(s.dir, s.file, s.file, 0)
	}

	w.visit, w.skip = s.visitNames(v), s.replaced
	if err := w.tree(s.dir, "", 0); err != nil {
		return err
	}

	w.visit, w.skip = v, ""

	for _, m := range s.more {
		st, err := m.dir.stat(".")
		if err == nil {
			err = v(m.dir, ".", m.name, &st)
		}

		if err == nil {
			err = w.tree(m.dir, m.name, 0)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// packer writes a tree as a tar.
type packer struct {
	w     *tar.Writer
	meter *meter
}

func (p *packer) visit(d *dir, name, rel string, st *unix.Stat_t) error {
	if err := p.meter.entry(rel); err != nil {
		return err
	}

	h := &tar.Header{
		Name: rel, Mode: int64(st.Mode & 0o777), ModTime: time.Unix(st.Mtim.Unix()), Format: tar.FormatPAX,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, rel+"/"
		return p.w.WriteHeader(h)
	case unix.S_IFLNK:
		return p.link(d, name, h)
	default:
		return p.file(d, name, rel, h, st)
	}
}

func (p *packer) link(d *dir, name string, h *tar.Header) error {
	target := make([]byte, unix.PathMax)

	n, err := unix.Readlinkat(d.fd, name, target)
	if err != nil {
		return err
	}

	h.Typeflag, h.Linkname = tar.TypeSymlink, string(target[:n])

	return p.w.WriteHeader(h)
}

func (p *packer) file(d *dir, name, rel string, h *tar.Header, st *unix.Stat_t) error {
	f, err := d.openAnyway(name, st)
	if err != nil {
		return err
	}
	defer f.Close()
	// Use the opened file's status: it may be another file by now.
	if err := unix.Fstat(int(f.Fd()), st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}

	first, err := p.meter.file(rel, st)
	if err != nil {
		return err
	}

	if first != "" {
		h.Typeflag, h.Linkname = tar.TypeLink, first
		return p.w.WriteHeader(h)
	}

	h.Typeflag, h.Size = tar.TypeReg, st.Size
	if err := p.w.WriteHeader(h); err != nil {
		return err
	}
	// The header promised this size: cut a file that has grown, fill up one that has shrunk.
	_, err = io.CopyN(p.w, io.MultiReader(f, zeros{}), st.Size)

	return err
}

// zeros is an endless reader of zero bytes.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
