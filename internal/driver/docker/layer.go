package docker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/driver/hostlibs"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// layerVersion must change with the additions to images, except for changes of this machine's files.
const layerVersion = "3"

// layer is the additions to every image.
type layer struct {
	// path in the image → file of this machine
	files map[string]string
	links hostlibs.Links

	// hash of the content
	sum string
}

// newLayer returns a layer with sandboxd and the files of a bridge.
func newLayer(sandboxd, folder string, links hostlibs.Links) (layer, error) {
	l := layer{links: links, files: map[string]string{sandboxdPath: sandboxd}}

	entries, err := os.ReadDir(folder)
	if err != nil {
		return l, err
	}

	for _, e := range entries {
		l.files[hostlibs.Mount+"/"+e.Name()] = filepath.Join(folder, e.Name())
	}

	sum := sha256.New()
	fmt.Fprintln(sum, layerVersion)

	for _, to := range slices.Sorted(maps.Keys(l.files)) {
		f, err := os.Open(l.files[to])
		if err != nil {
			return l, err
		}

		fmt.Fprintln(sum, to)

		_, err = io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return l, err
		}
	}

	l.sum = hex.EncodeToString(sum.Sum(nil))

	return l, nil
}

// view reads an image.
type view interface {
	// stat returns the type of a path, without following links; false: it does not exist.
	stat(path string) (fs.FileMode, bool, error)
	// text reads a regular file; "": none, or too long.
	text(path string) (string, error)
	// tree reads a folder as a tar whose names begin with the folder's own.
	tree(path string) (io.ReadCloser, error)
}

// write writes the layer for an image as a tar, with copies of these folders, and returns the size in
// memory of each copy, in bytes. It adds paths that the image lacks. It replaces the image's account files,
// anything at the paths of the sandbox's own files, and a file or a link at a mount point.
func (l layer) write(out io.Writer, v view, copied []folder) ([]int64, error) {
	w := layerWriter{tar: tar.NewWriter(out), view: v, made: map[string]bool{"/": true}}
	for _, p := range []string{
		wire.AgentHome, "/verifier", controlMount, AgentsMount, copiesMount, "/tmp", "/var/tmp", "/run",
		"/etc",
	} {
		w.point(p)
	}

	for _, to := range slices.Sorted(maps.Keys(l.files)) {
		w.file(to, l.files[to])
	}

	w.point(ownMount + "/bin")
	w.addEntry(tar.Header{
		Name:     ownMount + "/bin/" + runas.Name,
		Typeflag: tar.TypeSymlink,
		Linkname: sandboxdPath,
		Mode:     0o777,
	}, nil)

	links := maps.Clone(l.links.Bash)
	if !w.has(hostlibs.Loader) {
		maps.Copy(links, l.links.C)
	}

	maps.Copy(links, wire.TestLinks())

	for _, at := range slices.Sorted(maps.Keys(links)) {
		w.link(at, links[at])
	}

	w.accounts("/etc/passwd", func(a account) string {
		return fmt.Sprintf("%s:x:%d:%d:%s:%s:/bin/bash\n", a.name, a.id, a.id, a.name, a.home)
	})
	w.accounts("/etc/group", func(a account) string { return fmt.Sprintf("%s:x:%d:\n", a.name, a.id) })

	sizes := w.copies(copied)
	if w.err != nil {
		return nil, w.err
	}

	return sizes, w.tar.Close()
}

// layerWriter writes a layer and keeps the first error.
type layerWriter struct {
	tar  *tar.Writer
	view view
	made map[string]bool
	err  error
}

func (w *layerWriter) has(p string) bool {
	if w.err != nil || w.made[p] {
		return true
	}

	_, has, err := w.view.stat(p)
	w.err = err

	return has
}

// point makes p and its parents folders that the sandbox's users can enter, and replaces anything else there.
func (w *layerWriter) point(p string) {
	if w.err != nil || w.made[p] {
		return
	}

	w.point(path.Dir(p))

	mode, has, err := w.view.stat(p)
	if w.err == nil {
		w.err = err
	}

	const pass = 0o555

	h := tar.Header{Name: p, Typeflag: tar.TypeDir, Mode: 0o755}
	if has && mode.IsDir() {
		if w.made[p] = true; mode.Perm()&pass == pass {
			return
		}

		h.Mode = int64(mode.Perm() | pass)
	}

	w.addEntry(h, nil)
}

// folder creates the folder and its parents if missing.
func (w *layerWriter) folder(p string) {
	if w.has(p) {
		return
	}

	w.folder(path.Dir(p))
	w.addEntry(tar.Header{Name: p, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
}

// link creates a link if the path does not exist.
func (w *layerWriter) link(at, target string) {
	if w.has(at) {
		return
	}

	w.folder(path.Dir(at))
	w.addEntry(tar.Header{Name: at, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, nil)
}

func (w *layerWriter) file(to, from string) {
	w.point(path.Dir(to))

	data, err := os.ReadFile(from)
	if err != nil && w.err == nil {
		w.err = err
	}

	w.addEntry(tar.Header{Name: to, Typeflag: tar.TypeReg, Mode: 0o755}, data)
}

// account is a user of every sandbox.
type account struct {
	name, home string
	id         int
}

// accounts adds the accounts whose name and id are not in the image.
func (w *layerWriter) accounts(p string, line func(account) string) {
	if w.err != nil {
		return
	}

	text, err := w.view.text(p)
	if err != nil {
		w.err = err
		return
	}

	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}

	for _, a := range []account{
		{"user", wire.AgentHome, wire.AgentID}, {wire.VerifierUser, wire.VerifierHome, wire.VerifierID},
	} {
		if !hasAccount(text, a) {
			text += line(a)
		}
	}

	w.addEntry(tar.Header{Name: p, Typeflag: tar.TypeReg, Mode: 0o644}, []byte(text))
}

func hasAccount(text string, a account) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
		fields := strings.SplitN(line, ":", 4)
		return len(fields) > 2 && (fields[0] == a.name || fields[2] == strconv.Itoa(a.id))
	})
}

func (w *layerWriter) addEntry(h tar.Header, data []byte) {
	if w.err != nil {
		return
	}

	w.made[h.Name] = true

	h.Name, h.Size = strings.TrimPrefix(h.Name, "/"), int64(len(data))
	if w.err = w.tar.WriteHeader(&h); w.err == nil {
		_, w.err = io.Copy(w.tar, bytes.NewReader(data))
	}
}
