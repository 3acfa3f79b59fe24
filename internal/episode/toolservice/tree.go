package toolservice

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// tree reads the workdir of a sandbox. All of it is what the policy made: a link can only lead to what its
// own user reads.
type tree struct {
	files Files

	// links are visited as they are, not as what they lead to
	keepLinks bool

	// all entries of the workdir by their names; read when the first link is met
	all map[string]node
}

// node is an entry of the workdir.
type node struct {
	kind byte

	// where a link points
	target   string
	size     int64
	mode     int64
	modified time.Time
}

// visit gets an entry with its name relative to the workdir, which ends with a slash for a folder. content
// is that of a file, but nil for one to which a link leads.
type visit func(h *tar.Header, content io.Reader) error

// errEnough ends a walk.
var errEnough = errors.New("enough")

// walk visits a file; or a folder, and then what is in it.
func (t *tree) walk(ctx context.Context, at string, recursive bool, v visit) error {
	name, stream, err := t.open(ctx, at)
	if err != nil {
		return err
	}
	defer stream.Close()

	err = t.each(ctx, name, tar.NewReader(stream), recursive, v)
	if errors.Is(err, errEnough) {
		return nil
	}

	return err
}

// open opens the tar of a file or folder, and returns its name without links.
func (t *tree) open(ctx context.Context, at string) (name string, stream io.ReadCloser, err error) {
	name = relative(inWorkdir(at))

	// a link on the way, or at the end, is a fault.Invalid
	stream, err = t.files.GetTar(ctx, inWorkdir(name))
	if !fault.Is(err, fault.Invalid) {
		return name, stream, err
	}

	h, e := t.find(ctx, name)
	if e != nil {
		return "", nil, e
	}

	if path.Clean(h.Name) == path.Clean(name) {
		return "", nil, err
	}

	name = path.Clean(h.Name)
	stream, err = t.files.GetTar(ctx, inWorkdir(name))

	return name, stream, err
}

func (t *tree) each(ctx context.Context, name string, archive *tar.Reader, recursive bool, v visit) error {
	for first := true; ; first = false {
		h, err := archive.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return fault.Wrap(fault.Unavailable, err, "read %s", name)
		}

		if first {
			file, e := t.isFile(ctx, name, h)
			if e != nil {
				return e
			}

			if file {
				return t.visit(ctx, h, name, archive, v)
			}

			itself := t.header(name, node{kind: tar.TypeDir, mode: 0o755, modified: time.Now()})
			if e := v(itself, nil); e != nil {
				return e
			}
		}

		if err != nil {
			return nil
		}

		within := strings.Trim(path.Clean("/"+h.Name), "/")
		if within == "" || !recursive && strings.Contains(within, "/") {
			continue
		}

		if err := t.visit(ctx, h, path.Join(name, within), archive, v); err != nil {
			return err
		}
	}
}

// isFile reports whether the tar is that of a file and not of a folder: it has one entry with the path's
// own name. A folder may have such an entry, too.
func (t *tree) isFile(ctx context.Context, name string, first *tar.Header) (bool, error) {
	if first == nil || first.Typeflag != tar.TypeReg || first.Name != path.Base(name) {
		return false, nil
	}

	//nolint:gosec // a path of the sandbox
	stream, err := t.files.GetTar(ctx, inWorkdir(path.Join(name, first.Name)))
	if err == nil {
		return false, stream.Close()
	}

	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return true, nil
	}

	return false, err
}

// visit visits an entry of a tar.
func (t *tree) visit(ctx context.Context, h *tar.Header, name string, content io.Reader, v visit) error {
	switch {
	case h.Typeflag == tar.TypeDir:
		h.Name = name + "/"
		return v(h, nil)
	case h.Typeflag == tar.TypeReg:
		h.Name = name
		return v(h, content)
	case h.Typeflag == tar.TypeLink && t.keepLinks:
		// its target is relative to the folder of the tar
		//nolint:gosec // a path of the sandbox
		h.Linkname = path.Join(strings.TrimSuffix(name, h.Name), h.Linkname)
		h.Name = name

		return v(h, nil)
	case t.keepLinks:
		h.Name = name
		return v(h, nil)
	}

	target, err := t.find(ctx, name)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Unauthorized) {
		return nil
	}

	if err != nil {
		return err
	}

	return v(target, nil)
}

// maxLinks is how many links may follow each other, as in Linux.
const maxLinks = 40

// find returns the file or folder to which a name leads, with its own name. Nothing is a fault.NotFound, and
// a link that leads out of the workdir a fault.Unauthorized.
func (t *tree) find(ctx context.Context, name string) (*tar.Header, error) {
	if err := t.readAll(ctx); err != nil {
		return nil, err
	}

	at, rest := "", name

	for links := 0; links <= maxLinks; {
		part, after, more := strings.Cut(rest, "/")
		rest = after

		n, ok := t.all[path.Join(at, part)]

		switch {
		case !ok:
			return nil, fault.New(fault.NotFound, "%s: no such file or folder", name)
		case n.kind == tar.TypeSymlink:
			to := n.target
			if !path.IsAbs(to) {
				to = path.Join(rollout.Workdir, at, to)
			}

			if to = path.Clean(to); !within(to) {
				return nil, fault.New(fault.Unauthorized, "%s leads out of the workdir", name)
			}

			at, rest, links = "", path.Join(relative(to), rest), links+1
		case more:
			at = path.Join(at, part)
		default:
			return t.header(path.Join(at, part), n), nil
		}
	}

	return nil, fault.New(fault.NotFound, "%s is a ring of links", name)
}

// header returns that of a file or folder. A further name of a file has the file's size.
func (t *tree) header(name string, n node) *tar.Header {
	h := &tar.Header{
		Typeflag: n.kind, Name: name, Size: n.size, Mode: n.mode, ModTime: n.modified, Format: tar.FormatPAX,
	}

	switch n.kind {
	case tar.TypeDir:
		h.Name = path.Clean(name) + "/"
	case tar.TypeLink:
		h.Typeflag, h.Size = tar.TypeReg, t.all[path.Clean(n.target)].size
	}

	return h
}

func (t *tree) readAll(ctx context.Context) error {
	if t.all != nil {
		return nil
	}

	stream, err := t.files.GetTar(ctx, rollout.Workdir)
	if err != nil {
		return err
	}
	defer stream.Close()

	t.all = map[string]node{"": {kind: tar.TypeDir, mode: 0o755}}

	for archive := tar.NewReader(stream); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "read %s", rollout.Workdir)
		}

		t.all[path.Clean(h.Name)] = node{h.Typeflag, h.Linkname, h.Size, h.Mode, h.ModTime}
	}
}

// within reports whether a clean absolute path is in the workdir.
func within(p string) bool { return p == rollout.Workdir || strings.HasPrefix(p, rollout.Workdir+"/") }

// relative returns a clean absolute path of the workdir relative to it; "": the workdir.
func relative(p string) string {
	return strings.TrimPrefix(strings.TrimPrefix(p, rollout.Workdir), "/")
}
