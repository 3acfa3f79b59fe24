package sandboxd

import (
	"archive/tar"
	"io"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

func (s *Server) getTar(w http.ResponseWriter, r *http.Request) {
	path := r.FormValue("path")
	src, err := s.openSource(path)
	if err != nil {
		writeError(w, fault.Wrap(kindOf(err), err, "tar %q", path))
		return
	}
	defer src.close()
	// Measured first: once bytes have been sent, an error can only be told by breaking off.
	if err := src.each(newMeter(s.treeLimit).visit); err != nil {
		writeError(w, fault.Wrap(kindOf(err), err, "tar %q", path))
		return
	}
	w.Header().Set("Content-Type", "application/x-tar")
	p := &packer{w: tar.NewWriter(w), meter: newMeter(s.treeLimit)}
	err = src.each(p.visit)
	if err == nil {
		err = p.w.Close()
	}
	if err != nil {
		s.log.Warn("tar broken off", "error", err)
		panic(http.ErrAbortHandler)
	}
}

// source is what a tar is made of: a directory's contents, or one file.
type source struct {
	dir  *dir
	file string // in dir; "": all of it
}

func (s *Server) openSource(path string) (*source, error) {
	if d, err := s.places.dir(path, false); err == nil {
		return &source{dir: d}, nil
	}
	d, name, err := s.places.parent(path, false)
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
	return &source{dir: d, file: name}, nil
}

func (s *source) close() { s.dir.close() }

func (s *source) each(v visit) error {
	if s.file != "" {
		return visitOne(s.dir, s.file, s.file, 0, v)
	}
	return walkTree(s.dir, "", 0, v)
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
	// The opened file counts: it may be another one by now.
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
	// Its size is promised now, whatever happens to it: cut what grows, fill up what shrinks.
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
